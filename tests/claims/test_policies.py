"""Policies for mirrored queues: the commands of the articles, word by word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from browsing import browser, sign_in, visiting
from claims.conftest import WITH_LOCATOR
from cluster.conftest import OpenOn
from cluster.mirrored import MirroredCluster
from cluster.nodes import eventually

__all__ = ["browser"]

VALIDATION_FAILED = "Validation failed"


class Place:
    """A queue of the four nodes, declared at the first one, and where its copies are shown."""

    def __init__(self, cluster: MirroredCluster, queue: str) -> None:
        self.cluster = cluster
        self.queue = queue
        self.control = cluster.nodes[0].control

    def declare(self, **options: Any) -> None:
        channel = self.cluster.nodes[0].channel()
        channel.queue_declare(self.queue, **{"durable": True, **options})

    def set_policy(self, definition: str, *options: str, name: str = "") -> None:
        self.control.ok("set_policy", *options, name or self.queue, f"^{self.queue}$", definition)

    @property
    def shown(self) -> dict[str, Any]:
        answer = self.cluster.nodes[0].api.get("queues", "/", self.queue)
        return answer.body if answer.status == 200 else {}

    def has_mirrors(self, count: int) -> bool:
        return len(self.shown.get("slave_nodes", ())) == count

    def await_mirrors(self, count: int) -> None:
        eventually(lambda: self.has_mirrors(count), f"{count} mirrors")

    def await_in_sync(self, count: int) -> None:
        synced = "synchronised_slave_nodes"
        eventually(lambda: len(self.shown.get(synced, ())) == count, f"{count} in sync")

    def clear(self, *policies: str) -> None:
        for policy in policies:
            self.cluster.nodes[0].api.delete("policies", "/", policy)
        self.cluster.nodes[0].api.delete("queues", "/", self.queue)


@pytest.fixture
def place(four: MirroredCluster, name: str) -> Iterator[Place]:
    place = Place(four, name)
    yield place
    place.clear(name, f"{name}-2", "hello-ha", "mirror_queue")


def test_c018_set_policy(place: Place, four: MirroredCluster) -> None:
    """set_policy takes a virtual host, a priority and a target, before or behind its arguments."""
    control, name = place.control, place.queue
    control.ok(f"add_vhost {name}")
    for options, priority in ((["--priority", "3", "--apply-to", "queues"], 3), ([], 0)):
        for words in (
            ["-p", name, *options, "p", "^q$", '{"ha-mode":"all"}'],
            ["p", "^q$", '{"ha-mode":"all"}', *options, "-p", name],
        ):
            control.ok("set_policy", *words)
            policy = four.nodes[1].api.get("policies", name, "p").body
            target = "queues" if options else "all"
            assert (policy["priority"], policy["apply-to"]) == (priority, target)
    control.ok(f"delete_vhost {name}")


def test_c019_apply_to(place: Place) -> None:
    """A policy is for queues, exchanges or all, which is the default."""
    place.declare()
    place.set_policy('{"ha-mode":"all"}')
    assert place.cluster.nodes[0].api.get("policies", "/", place.queue).body["apply-to"] == "all"
    alternate = '{"alternate-exchange":"amq.fanout"}'
    options = ("--apply-to", "exchanges", "--priority", "20")
    place.set_policy(alternate, *options, name=f"{place.queue}-2")
    assert place.shown["policy"] == place.queue
    refused = place.control("set_policy", "--apply-to", "bogus", "p", "q", '{"ha-mode":"all"}')
    assert refused.code != 0
    assert "apply-to" in refused.err


def test_c020_nodes_verbatim(place: Place) -> None:
    """The article's hello-ha with ha-mode nodes and rabbit@10.18.195.57 is accepted."""
    place.declare()
    definition = (
        '{"ha-mode":"nodes","ha-params":["rabbit@10.18.195.57"],"ha-sync-mode":"automatic"}'
    )
    place.set_policy(definition, name="hello-ha")
    eventually(lambda: place.shown.get("slave_nodes") == [], "mirrored, without mirrors")
    assert place.shown["node"] == place.cluster.nodes[0].name, "no such node: the master stays"
    place.set_policy(definition.replace("rabbit@10.18.195.57", "n2@localhost"), name="hello-ha")
    eventually(lambda: place.shown.get("node") == "n2@localhost", "it moves to a node that exists")


def test_c021_modes(place: Place) -> None:
    """ha-mode is all, exactly or nodes."""
    place.declare()
    place.set_policy('{"ha-mode":"all"}')
    place.await_mirrors(3)
    place.set_policy('{"ha-mode":"exactly","ha-params":2}')
    place.await_mirrors(1)
    place.set_policy('{"ha-mode":"nodes","ha-params":["n1@localhost","n3@localhost"]}')
    eventually(lambda: place.shown.get("slave_nodes") == ["n3@localhost"], "as named")


def test_c022_manually(place: Place) -> None:
    """ha-sync-mode can be `manually`."""
    words = ("set_policy", place.queue, "^x$")
    refused = place.control(*words, '{"ha-mode":"all","ha-sync-mode":"manually"}')
    assert refused.code == 65
    assert VALIDATION_FAILED in refused.err
    assert "ha-sync-mode" in refused.err
    place.control.ok(*words, '{"ha-mode":"all","ha-sync-mode":"manual"}')


def test_c024_list_policies(place: Place) -> None:
    """list_policies shows virtual host, name, pattern, target, definition and priority."""
    place.set_policy('{"ha-mode":"all"}', "--priority", "7")
    listed = place.control.ok("list_policies -q").rows
    assert listed[0] == ["vhost", "name", "pattern", "apply-to", "definition", "priority"]
    expected = ["/", place.queue, f"^{place.queue}$", "all", '{"ha-mode":"all"}', "7"]
    assert expected in listed


def test_c025_list_queues(place: Place) -> None:
    """`list_queues name pid slave_pids` shows the master and the mirrors of each queue."""

    def row() -> list[str]:
        rows = place.control.ok("list_queues -q name pid slave_pids").rows
        return next(row for row in rows if row[0] == place.queue)

    place.declare()
    assert row()[1].startswith("<n1@localhost.")
    assert row()[2] == ""
    place.set_policy('{"ha-mode":"exactly","ha-params":2}')
    place.await_mirrors(1)
    assert row()[2].startswith("[<n")
    place.set_policy('{"ha-mode":"exactly","ha-params":1}')
    eventually(lambda: row()[2] == "[]", "mirrored, without mirrors")


def test_c026_management_page(place: Place, browser: Browser) -> None:
    """The management page sets policies, lists them, and shows a queue's policy and copies."""
    place.declare()
    policy = f"{place.queue}-2"
    with visiting(browser, place.cluster.nodes[1].http_port) as arrive:
        page = arrive()
        sign_in(page, "guest", "guest")
        page.goto("/policies")
        page.get_by_label("Name", exact=True).first.fill(policy)
        page.get_by_label("Pattern").fill(f"^{place.queue}$")
        page.get_by_label("Definition").fill("ha-mode = all")
        page.get_by_role("button", name="Set policy").click()
        expect(page.get_by_text(f"Policy “{policy}” is set.")).to_be_visible()
        expect(page.locator("tr", has_text=policy)).to_contain_text(f"^{place.queue}$")
        place.await_in_sync(3)
        page.goto(f"/queues/%2F/{place.queue}")
        members = page.locator(".members li")
        expect(members.filter(has_text="in sync")).to_have_count(3)
        expect(members.filter(has_text="master")).to_contain_text("n1@localhost")
        expect(page.locator("main")).to_contain_text(policy)


def test_c027_priority(place: Place) -> None:
    """Of several policies that match a queue the one with the highest priority applies."""
    place.declare()
    place.set_policy('{"ha-mode":"exactly","ha-params":2}')
    place.set_policy('{"ha-mode":"all"}', "--priority", "10", name=f"{place.queue}-2")
    place.await_mirrors(3)
    place.control.ok(f"clear_policy {place.queue}-2")
    place.await_mirrors(1)


def test_c028_fourth_argument(place: Place) -> None:
    """set_policy takes the priority as its fourth argument."""
    refused = place.control("set_policy p ^x$", '{"ha-mode":"all"}', "5")
    assert refused.code == 64
    assert "too many arguments" in refused.err


def test_c029_exactly_verbatim(place: Place) -> None:
    """The article's hello-ha with exactly 2 copies and automatic synchronisation works."""
    place.declare()
    definition = '{"ha-mode":"exactly","ha-params":2,"ha-sync-mode":"automatic"}'
    place.set_policy(definition, name="hello-ha")
    place.await_mirrors(1)
    place.await_in_sync(1)


def test_c030_mirror_queue_verbatim(place: Place, four: MirroredCluster) -> None:
    """The article's mirror_queue with pattern ^queue_ and exactly 2 copies works."""
    queue = Place(four, "queue_c030")
    queue.declare()
    definition = '{"ha-mode":"exactly","ha-params":2,"ha-sync-mode":"automatic"}'
    words = ("set_policy", "--priority", "0", "--apply-to", "queues", "mirror_queue", "^queue_")
    queue.control.ok(*words, definition)
    queue.await_in_sync(1)
    misprinted = queue.control(*words, definition + ",")
    assert misprinted.code != 0
    assert "JSON" in misprinted.err
    queue.clear("mirror_queue")


def test_c031_default_mode(place: Place) -> None:
    """ha-mode is `all` if a policy does not say it."""
    refused = place.control("set_policy", place.queue, "^x$", '{"ha-params":2}')
    assert refused.code == 65
    assert VALIDATION_FAILED in refused.err
    assert "ha-mode" in refused.err


def test_c032_too_many(place: Place) -> None:
    """With `exactly` and more copies than there are nodes, all nodes have one."""
    place.declare()
    place.set_policy('{"ha-mode":"exactly","ha-params":10}')
    place.await_mirrors(3)


def test_c033_unknown_nodes(place: Place) -> None:
    """With `nodes`, those that are listed and exist have copies."""
    place.declare()
    named = ["n1@localhost", "nobody@nowhere", "n4@localhost", "rabbit@gone"]
    place.set_policy(json.dumps({"ha-mode": "nodes", "ha-params": named}))
    eventually(lambda: place.shown.get("slave_nodes") == ["n4@localhost"], "those that exist")


def test_c034_names_of_nodes(place: Place) -> None:
    """Names of nodes in a policy are those that cluster_status shows."""
    status = json.loads(place.control.ok("cluster_status --formatter json").out)
    running = status["running_nodes"]
    assert sorted(running) == [node.name for node in place.cluster.nodes]
    place.declare()
    place.set_policy(json.dumps({"ha-mode": "nodes", "ha-params": running}))
    place.await_mirrors(3)


def test_c035_exclusive_queues(place: Place, open_on: OpenOn) -> None:
    """Exclusive queues are never mirrored."""
    place.set_policy('{"ha-mode":"all"}')
    channel = open_on(place.cluster.nodes[0])
    channel.queue_declare(place.queue, exclusive=True)
    rows = place.control.ok("list_queues -q name policy slave_pids").rows
    assert [place.queue, "", ""] in rows or [place.queue, place.queue, ""] in rows
    assert place.cluster.group(place.queue) is None
    channel.connection.close()


def test_c036_locators(four: MirroredCluster, name: str, open_on: OpenOn) -> None:
    """The master's node is chosen by min-masters, client-local or random, which an argument,
    a policy or the configuration file says."""
    first, api = four.nodes[0], four.nodes[0].api

    def declared(queue: str, at: int, **arguments: str) -> str:
        arguments = {key.replace("_", "-"): value for key, value in arguments.items()}
        open_on(four.nodes[at]).queue_declare(queue, durable=True, arguments=arguments)
        return str(api.must(api.get("queues", "/", queue))["node"])

    def emptiest() -> set[str]:
        masters = [queue["node"] for queue in api.must(api.get("queues"))]
        counts = {node.name: masters.count(node.name) for node in four.nodes}
        return {node for node, count in counts.items() if count == min(counts.values())}

    made = [f"{name}-{number}" for number in range(8)]
    for at in (1, 2):
        local = "client-local"
        assert declared(made[at], at, x_queue_master_locator=local) == four.nodes[at].name
    expected = emptiest()
    assert declared(made[3], 0, x_queue_master_locator="min-masters") in expected
    anywhere = {node.name for node in four.nodes}
    assert declared(made[4], 0, x_queue_master_locator="random") in anywhere
    first.control.ok("set_policy", name, f"^{made[5]}$", '{"queue-master-locator":"min-masters"}')
    expected = emptiest()
    assert declared(made[5], 0) in expected
    while four.nodes[WITH_LOCATOR].name in (expected := emptiest()):
        made.append(f"{name}-{len(made)}")
        declared(made[-1], WITH_LOCATOR, x_queue_master_locator="client-local")
    assert declared(made[6], WITH_LOCATOR) in expected, "as its configuration file says"
    assert declared(made[7], 0) == first.name, "which is client-local by default"
    for queue in made[1:]:
        api.delete("queues", "/", queue)
    first.control.ok(f"clear_policy {name}")
