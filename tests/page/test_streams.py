"""Streams: what they hold, and how far groups are behind."""

from __future__ import annotations

from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Page, expect

from acceptance.management_client import Api


def test_a_stream_shows_its_groups_and_how_far_they_are_behind(
    page: Page, channel: BlockingChannel, api: Api
) -> None:
    page.goto("/streams")
    expect(page.get_by_text("There are no streams.")).to_be_visible()
    channel.confirm_delivery()
    channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
    for number in range(7):
        channel.basic_publish("", "log", b"%d" % number)
    page.goto("/streams")
    expect(page.locator("dl", has_text="Records").locator("dd")).to_have_text("7")
    page.get_by_text("Set a group of log").click()
    page.get_by_label("Group", exact=True).fill("readers")
    page.get_by_label("Goes on at offset").fill("3")
    page.get_by_role("button", name="Set group").click()
    expect(page.get_by_text("“readers” goes on at offset 3.")).to_be_visible()
    row = page.get_by_role("row", name="readers")
    expect(row.locator(".number").nth(1)).to_have_text("4")
    place = ("warren", "streams", "/", "log", "groups", "readers")
    assert api.must(api.get(*place))["lag"] == 4
    row.get_by_role("button", name="Forget").click()
    page.get_by_role("button", name="Yes, do it").click()
    expect(page.get_by_text("“readers” is forgotten.")).to_be_visible()
    assert api.get(*place).status == 404
