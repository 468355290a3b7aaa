"""The management page of a cluster: the ring of a queue, as it changes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

from browsing import browser, sign_in, visiting
from cluster.nodes import ClusterOfNodes, publish
from security.page_client import ask_page, log_in_to_page

__all__ = ["browser"]


@pytest.fixture
def page(browser: Browser, cluster: ClusterOfNodes) -> Iterator[Page]:
    """Of the second node."""
    with visiting(browser, cluster.nodes[1].http_port) as arrive:
        page = arrive()
        sign_in(page, "guest", "guest")
        yield page


def test_the_ring_is_drawn_and_follows_what_becomes_of_it(
    page: Page, cluster: ClusterOfNodes
) -> None:
    """On the page of a node that only mirrors it, which is not reloaded."""
    api, name = cluster.nodes[0].api, f"ring-{uuid.uuid4().hex[:8]}"
    policy = {"pattern": f"^{name}$", "definition": {"ha-mode": "all"}}
    api.must(api.put("policies", "/", name, body=policy))
    channel = cluster.nodes[0].channel()
    channel.queue_declare(name, durable=True)
    publish(channel, name, b"one")

    page.goto(f"/queues/%2F/{name}")
    page.evaluate("window.isSamePage = true")
    page.get_by_label("Refresh").select_option("every 2 s")
    members = page.locator(".members li")
    expect(members.filter(has_text="in sync")).to_have_count(2)
    expect(members.filter(has_text="master")).to_contain_text("n1@localhost")
    expect(page.locator(".ring .member")).to_have_count(3)
    expect(page.locator(".ring .leader .label")).to_have_text("n1@localhost")

    fewer = {"ha-mode": "nodes", "ha-params": ["n1@localhost", "n3@localhost"]}
    api.must(api.put("policies", "/", name, body={**policy, "definition": fewer}))
    expect(page.locator(".members li").filter(has_text="n2@localhost")).to_have_count(0)
    expect(page.locator(".ring .member")).to_have_count(2)
    assert page.evaluate("window.isSamePage")

    api.must(api.delete("queues", "/", name))
    api.must(api.delete("policies", "/", name))


def test_a_session_holds_on_all_nodes(page: Page, cluster: ClusterOfNodes) -> None:
    for node in cluster.nodes:
        page.goto(f"http://127.0.0.1:{node.http_port}/nodes")
        expect(page.get_by_role("heading", name="Nodes", exact=True)).to_be_visible()
        for other in cluster.nodes:
            expect(page.get_by_role("row", name=other.name).first).to_contain_text("running")


def test_a_quorum_queue_shows_its_members(page: Page, cluster: ClusterOfNodes) -> None:
    name = f"quorum-{uuid.uuid4().hex[:8]}"
    arguments = {"x-queue-type": "quorum"}
    cluster.nodes[2].channel().queue_declare(name, durable=True, arguments=arguments)
    page.goto(f"/queues/%2F/{name}")
    shown = page.locator("dt", has_text="Members").locator("xpath=following-sibling::dd[1]")
    expect(shown).to_contain_text("n3@localhost leader")
    for other in ("n1@localhost", "n2@localhost"):
        expect(shown).to_contain_text(f"{other} online")
    api = cluster.nodes[0].api
    api.must(api.delete("queues", "/", name))


def test_signing_out_at_one_node_ends_the_session_at_all(cluster: ClusterOfNodes) -> None:
    ports = [node.http_port for node in cluster.nodes]
    cookie = log_in_to_page(ports[0], "guest", "guest").cookie
    shown = [ask_page(port, "GET", "/queues", cookie=cookie) for port in ports]
    assert [page.status for page in shown] == [200] * len(ports)
    form = urlencode({"csrf": shown[0].token}).encode()
    assert ask_page(ports[0], "POST", "/logout", form, cookie=cookie).status == 303
    after = [ask_page(port, "GET", "/queues", cookie=cookie).status for port in ports]
    assert after == [303] * len(ports)
