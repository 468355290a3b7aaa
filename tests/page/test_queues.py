"""The list of queues: what it says of each, choosing, sorting, turning pages."""

from __future__ import annotations

import re

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Page, expect

from acceptance.management_client import Api
from broker_process import Address, BrokerProcess

MANY = 120


@pytest.fixture(scope="module", autouse=True)
def many_queues(broker: BrokerProcess) -> None:
    api = Api(Address("127.0.0.1", broker.http_port))
    queues = [
        {"name": f"many-{n:03}", "vhost": "/", "durable": False, "auto_delete": False,
         "arguments": {}}
        for n in range(MANY)
    ]  # fmt: skip
    api.must(api.post("definitions", body={"queues": queues}))


def test_a_queue_says_what_it_has_and_what_it_is(
    page: Page, channel: BlockingChannel, api: Api
) -> None:
    channel.queue_declare("<b>odd/name</b>", durable=True, arguments={"x-message-ttl": 3_600_000})
    for _ in range(3):
        channel.basic_publish("", "<b>odd/name</b>", b"x")
    policy = {"pattern": "odd", "definition": {"max-length": 10}}
    api.must(api.put("policies", "/", "short", body=policy))
    page.goto("/queues?name=odd")
    row = page.get_by_role("row", name="<b>odd/name</b>")
    expect(row).to_contain_text("short")
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("3 · 0 · 0")
    expect(row.get_by_title("x-message-ttl: 3600000")).to_be_visible()


def test_queues_of_all_kinds_are_shown(page: Page, channel: BlockingChannel) -> None:
    kinds = {
        "x-max-priority": 5,
        "x-queue-type": "stream",
        "x-queue-mode": "lazy",
        "x-single-active-consumer": True,
        "x-max-length": 10,
    }
    for key, value in kinds.items():
        channel.queue_declare(f"kind {key}", durable=True, arguments={key: value})
        channel.basic_publish("", f"kind {key}", b"x")
    page.goto("/queues?name=kind")
    expect(page.locator("tbody tr")).to_have_count(len(kinds))
    for key in kinds:
        page.goto(f"/queues/%2F/kind%20{key}")
        expect(page.get_by_role("heading", name=f"kind {key}")).to_be_visible()


def test_queues_are_found_by_their_names_while_one_types(page: Page) -> None:
    page.goto("/queues")
    expect(page.locator("#live")).to_contain_text("page 1 of 3")
    page.get_by_label("Filter").press_sequentially("many-01")
    expect(page.locator("tbody tr")).to_have_count(10)
    expect(page).to_have_url(re.compile("name=many-01"))
    expect(page.get_by_label("Filter")).to_be_focused()
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(10)
    page.get_by_label("Filter").fill("nothing is called so")
    expect(page.get_by_text("No queues match.")).to_be_visible()


def test_a_list_is_sorted_and_turned_over(page: Page, channel: BlockingChannel) -> None:
    channel.basic_publish("", "many-077", b"x")
    page.goto("/queues?name=many")
    first = page.locator("tbody tr").first
    expect(first).to_contain_text("many-000")
    page.get_by_role("link", name="Ready").click()
    expect(first).to_contain_text("many-077")
    heading = page.get_by_role("columnheader", name="Ready")
    expect(heading).to_have_attribute("aria-sort", "descending")
    page.get_by_role("link", name="Name").click()
    expect(first).to_contain_text("many-000")
    page.get_by_role("link", name="Last").click()
    expect(page.locator("#live")).to_contain_text("page 3 of 3")
    expect(page.locator("tbody tr")).to_have_count(MANY - 100)


def test_a_quorum_queue_outside_of_a_cluster_has_one_copy_and_says_so(
    page: Page, channel: BlockingChannel
) -> None:
    channel.queue_declare("votes", durable=True, arguments={"x-queue-type": "quorum"})
    page.goto("/queues?name=votes")
    expect(page.get_by_role("row", name="votes")).to_contain_text("1 copy")
    page.goto("/queues/%2F/votes")
    expect(page.get_by_text("one copy")).to_be_visible()
    expect(page.get_by_text("this node is not in a cluster")).to_be_visible()
