"""The banner above every page: members, queues and copies that are missing, and what is drained.

One cluster goes through all states, and the page follows without being reloaded. `list_queues`,
the health checks, the API, the metrics and the log are asked for the same at each state.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from acceptance.test_prometheus import Scraped, ask
from broker_process import Address
from browsing import sign_in, visiting
from cluster.mirrored import MirroredCluster, running_mirrored
from cluster.nodes import NodeProcess, eventually, publish

CHECKS = ("all-members-running", "all-queues-available", "all-copies-present")
VERBS = ("check_all_members_running", "check_all_queues_available", "check_all_copies_present")


@pytest.fixture(scope="module")
def degradable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredCluster]:
    with running_mirrored(tmp_path_factory.mktemp("lacks")) as cluster:
        cluster.nodes[0].channel().queue_declare("mirrored-orders", durable=True)
        cluster.nodes[2].channel().queue_declare("alone", durable=True)
        publish(cluster.nodes[2].channel(), "alone", b"kept by one node only")
        cluster.await_in_sync("mirrored-orders")
        yield cluster


@pytest.fixture
def page(browser: Browser, degradable: MirroredCluster) -> Iterator[Page]:
    """The page of the first node, refreshed every 2 s."""
    with visiting(browser, degradable.nodes[0].http_port) as arrive:
        page = arrive()
        sign_in(page, "guest", "guest")
        page.get_by_label("Refresh").select_option("every 2 s")
        yield page


def banner(page: Page) -> Locator:
    return page.locator("#live-lacks p")


def pictured(page: Page, name: str) -> None:
    """Keep a picture, if somebody wants to look at them."""
    directory = os.environ.get("WARREN_PICTURES")
    if directory:
        page.screenshot(path=str(Path(directory) / f"{name}.png"), full_page=True)


def checked(node: NodeProcess) -> list[bool]:
    """Whether each health check passes; `warrenctl` must say the same."""
    by_api = [node.api.get("health", "checks", check).status == 200 for check in CHECKS]
    by_verb = [node.control(verb).code == 0 for verb in VERBS]
    assert by_api == by_verb
    return by_api


def lacks(node: NodeProcess) -> dict[str, Any]:
    found: dict[str, Any] = node.api.must(node.api.get("warren", "redundancy"))
    return found


def copies(node: NodeProcess) -> dict[str, list[str]]:
    """By queue: wanted copies and those in sync, as `list_queues` says."""
    columns = "name wanted_copies synchronised_copies"
    lines = node.control.ok(f"list_queues -q --no-table-headers {columns}").out.splitlines()
    return {line.split("\t")[0]: line.split("\t")[1:] for line in lines}


def metrics(node: NodeProcess) -> Scraped:
    return Scraped(ask(Address("127.0.0.1", node.http_port), "/metrics")[2])


def counted(node: NodeProcess) -> list[float]:
    names = (
        "unreachable_cluster_peers_count", "cluster_members", "cluster_members_down",
        "cluster_members_drained", "cluster_queues_down", "cluster_queues_lacking_copies",
        "cluster_queue_copies_missing",
    )  # fmt: skip
    scraped = metrics(node)
    return [scraped.value(name) for name in names]


def logged(nodes: list[NodeProcess], *words: str) -> int:
    """Number of lines with all these words, in the logs of these nodes together."""
    lines = [line for node in nodes for line in node.log().splitlines()]
    return sum(all(word in line for word in words) for line in lines)


def test_a_whole_cluster_has_no_banner_and_passes_all_checks(
    page: Page, degradable: MirroredCluster
) -> None:
    first = degradable.nodes[0]
    eventually(lambda: checked(first) == [True, True, True], "everything is whole")
    page.goto("/queues")
    expect(page.get_by_role("row", name="mirrored-orders")).to_contain_text("+2 in sync")
    expect(banner(page)).to_have_count(0)
    assert copies(first) == {
        "mirrored-canary": ["3", "3"],
        "mirrored-orders": ["3", "3"],
        "alone": ["1", "1"],
    }
    assert counted(first) == [0, 3, 0, 0, 0, 0, 0]
    assert lacks(first)["queues"] == []


def test_a_drained_node_is_named_above_every_page(page: Page, degradable: MirroredCluster) -> None:
    first, second = degradable.nodes[:2]
    second.control.ok("drain")
    for path in ("/", "/queues", "/policies"):
        page.goto(path)
        expect(banner(page).filter(has_text="In maintenance")).to_contain_text(second.name)
    page.goto("/")
    pictured(page, "drained")
    eventually(lambda: lacks(first)["members_drained"] == [second.name], "all know it")
    in_service = ("health", "checks", "is-in-service")
    assert second.api.get(*in_service).status == 503
    assert first.api.get(*in_service).status == 200
    assert first.control(f"check_if_in_service -n {second.name}").code == 69
    assert counted(first)[3] == 1
    second.control.ok("revive")
    expect(banner(page)).to_have_count(0)
    first.control.ok(f"check_if_in_service -n {second.name}")


def test_a_dead_member_its_queues_and_missing_copies_are_named_until_it_is_back(
    page: Page, degradable: MirroredCluster
) -> None:
    first, second, third = degradable.nodes
    page.goto("/")
    expect(page.locator("#live")).to_contain_text("Totals of 3 of 3 nodes")
    page.evaluate("window.isSamePage = true")
    third.kill()
    expect(banner(page).filter(has_text="1 of 3 nodes is down")).to_contain_text(third.name)
    expect(banner(page).filter(has_text="1 queue is down")).to_be_visible()
    expect(banner(page).filter(has_text="2 queues have fewer")).to_be_visible()
    expect(page.locator("#live")).to_contain_text("Totals of 2 of 3 nodes")
    expect(page.locator(".objects")).to_contain_text("3 queues")
    assert page.evaluate("window.isSamePage")
    pictured(page, "member-down")
    page.goto("/queues?sort=missing_copies&sort_reverse=true")
    orders = page.get_by_role("row", name="mirrored-orders")
    expect(orders).to_contain_text("2 of 3 copies")
    expect(page.locator("#live .state.good")).to_have_count(0)
    pictured(page, "member-down-queues")
    page.goto("/queues/%2F/mirrored-orders")
    expect(page.locator(".facts")).to_contain_text(["2 of 3 wanted", ""])
    pictured(page, "member-down-queue")

    for node in (first, second):
        assert checked(node) == [False, False, False]
        assert copies(node)["mirrored-orders"] == ["3", "2"]
        assert copies(node)["alone"] == ["1", "0"]
        assert counted(node) == [1, 3, 1, 0, 1, 2, 3]
        found = lacks(node)
        assert (found["members_down"], found["queues_down"]) == ([third.name], 1)
        assert found["queues"][0]["name"] == "alone"
    assert "alone" in first.control("check_all_queues_available").err
    living = [first, second]
    for name in ("mirrored-orders", "alone"):
        line = ("queue lacks copies", f"'{name}'")
        eventually(lambda line=line: logged(living, *line), "it is logged")
        assert logged(living, *line) == 1

    degradable.start_all()
    expect(banner(page)).to_have_count(0)
    eventually(lambda: checked(first) == [True, True, True], "everything is whole again")
    assert counted(first) == [0, 3, 0, 0, 0, 0, 0]
    for name in ("mirrored-orders", "alone"):
        line = ("queue has all copies again", f"'{name}'")
        eventually(lambda line=line: logged(degradable.nodes, *line), "it is logged")


def test_a_policy_that_wants_more_copies_than_there_are_nodes_is_not_whole(
    page: Page, degradable: MirroredCluster
) -> None:
    first = degradable.nodes[0]
    eventually(lambda: checked(first) == [True, True, True], "everything is whole")
    degradable.mirror("five", "^mirrored-orders$", {"ha-mode": "exactly", "ha-params": 5}, 9)
    page.goto("/")
    expect(banner(page)).to_contain_text("1 queue has fewer synchronised copies than wanted")
    assert copies(first)["mirrored-orders"] == ["5", "3"]
    degradable.stop_mirroring("five")
    expect(banner(page)).to_have_count(0)
