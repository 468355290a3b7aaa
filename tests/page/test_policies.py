"""Policies, with what they would change; and dead letters, with the way back."""

from __future__ import annotations

from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Page, expect

from acceptance.management_client import Api


def test_a_policy_is_tried_set_explained_and_removed(
    page: Page, channel: BlockingChannel, api: Api
) -> None:
    channel.queue_declare("ruled")
    page.goto("/policies")
    page.get_by_label("Name", exact=True).first.fill("rule")
    page.get_by_label("Pattern").fill("^ruled$")
    page.get_by_label("Definition").fill("max-length = 7")
    page.get_by_role("button", name="What would it change?").click()
    foreseen = page.locator("#foreseen")
    expect(foreseen).to_contain_text("It would change 1 thing")
    expect(foreseen.get_by_role("row", name="ruled")).to_contain_text("max-length")
    assert api.must(api.get("policies")) == []
    page.get_by_role("button", name="Set policy").click()
    expect(page.get_by_text("Policy “rule” is set.")).to_be_visible()
    assert api.must(api.get("queues", "/", "ruled"))["policy"] == "rule"
    page.get_by_text("Explain", exact=True).first.click()
    page.get_by_label("Name", exact=True).last.fill("ruled")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#explained")).to_contain_text("rule")
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Yes, do it").click()
    expect(page.get_by_text("There are no policies.")).to_be_visible()


def test_a_policy_that_makes_no_sense_is_refused(page: Page) -> None:
    page.goto("/policies")
    page.get_by_label("Name", exact=True).first.fill("nonsense")
    page.get_by_label("Pattern").fill(".*")
    page.get_by_label("Definition").fill("max-length = many")
    page.get_by_role("button", name="Set policy").click()
    expect(page.get_by_role("alert")).to_contain_text("Validation failed")


def test_dead_letters_are_grouped_looked_at_and_sent_back(
    page: Page, channel: BlockingChannel, api: Api
) -> None:
    page.goto("/dead-letters")
    expect(page.get_by_text("No dead letters.")).to_be_visible()
    channel.confirm_delivery()
    channel.exchange_declare("graves", "fanout")
    channel.queue_declare("grave", durable=True, arguments={"x-queue-mode": "lazy"})
    channel.queue_bind("grave", "graves")
    for name in ("rejecting", "also rejecting"):
        channel.queue_declare(name, arguments={"x-dead-letter-exchange": "graves"})
        for number in range(3):
            properties = BasicProperties(headers={"number": number}, delivery_mode=2)
            channel.basic_publish("", name, b"of %s" % name.encode(), properties)
            channel.basic_reject(channel.basic_get(name)[0].delivery_tag, requeue=False)
    page.goto("/dead-letters")
    group = page.locator("tr", has=page.get_by_role("link", name="rejecting", exact=True))
    expect(group).to_contain_text("rejected")
    expect(group.locator(".number")).to_have_text("3")
    group.get_by_role("link", name="Preview").click()
    expect(page.locator("#preview article")).to_have_count(3)
    expect(page.locator("#preview article").first).to_contain_text("of rejecting")
    group.get_by_role("button", name="Redrive").click()
    page.get_by_role("button", name="Yes, do it").click()
    expect(page.get_by_text("3 messages went back to “rejecting”.")).to_be_visible()
    expect(group).to_have_count(0)
    expect(page.locator("tr", has_text="also rejecting").locator(".number")).to_have_text("3")
    got = [channel.basic_get("rejecting", auto_ack=True) for _ in range(3)]
    assert [properties.headers for _, properties, _ in got] == [{"number": n} for n in range(3)]
    assert api.must(api.get("queues", "/", "grave"))["messages_ready"] == 3
