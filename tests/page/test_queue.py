"""One queue: looking at its messages, and all that can be done with them."""

from __future__ import annotations

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Page, expect

from acceptance.management_client import Api

QUEUE = "orders & <more>"
PATH = "/queues/%2F/orders%20%26%20%3Cmore%3E"


@pytest.fixture(autouse=True)
def queue(channel: BlockingChannel) -> None:
    channel.queue_delete(QUEUE)
    channel.queue_declare(QUEUE, durable=True)
    channel.confirm_delivery()


def put(channel: BlockingChannel, *bodies: bytes) -> None:
    for body in bodies:
        channel.basic_publish("", QUEUE, body, BasicProperties(headers={"colour": "blue"}))


def count(api: Api, name: str = QUEUE) -> int:
    return int(api.must(api.get("queues", "/", name))["messages_ready"])


def open_part(page: Page, title: str) -> None:
    page.goto(PATH)
    page.locator("summary", has_text=title).click()


def test_a_queue_is_declared_and_deleted(page: Page, api: Api) -> None:
    page.goto("/queues")
    page.get_by_text("Declare a queue").click()
    page.get_by_label("Name", exact=True).fill("made by hand")
    page.get_by_label("Arguments").fill("x-max-length = 5\nx-overflow = reject-publish")
    page.get_by_role("button", name="Declare queue").click()
    expect(page.get_by_role("heading", name="made by hand")).to_be_visible()
    expect(page.get_by_text("“made by hand” is declared.")).to_be_visible()
    declared = api.must(api.get("queues", "/", "made by hand"))
    assert declared["arguments"] == {"x-max-length": 5, "x-overflow": "reject-publish"}
    page.locator("summary", has_text="Purge and delete").click()
    page.get_by_role("button", name="Delete queue").click()
    page.get_by_role("button", name="Yes, do it").click()
    expect(page.get_by_text("“made by hand” was deleted.")).to_be_visible()
    assert api.get("queues", "/", "made by hand").status == 404


def test_what_is_wrong_is_said_beside_the_form_which_keeps_what_was_typed(page: Page) -> None:
    page.goto("/queues")
    page.get_by_text("Declare a queue").click()
    page.get_by_label("Name", exact=True).fill("wrong")
    page.get_by_label("Arguments").fill("x-message-ttl = never")
    page.get_by_role("button", name="Declare queue").click()
    expect(page.get_by_role("alert")).to_contain_text("x-message-ttl")
    expect(page.get_by_label("Name", exact=True)).to_have_value("wrong")


def test_messages_are_browsed_without_being_touched(
    page: Page, channel: BlockingChannel, api: Api
) -> None:
    put(channel, b"first <script>alert(1)</script>", b"second", b"\xff\xfe")
    page.goto(PATH)
    page.get_by_role("button", name="Browse").click()
    shown = page.locator("#browsed article")
    expect(shown).to_have_count(3)
    expect(shown.first).to_contain_text("first <script>alert(1)</script>")
    expect(shown.first).to_contain_text('"colour": "blue"')
    expect(shown.last).to_contain_text("base64")
    page.get_by_label("Text in the body").fill("second")
    page.get_by_role("button", name="Browse").click()
    expect(shown).to_have_count(1)
    assert count(api) == 3
    frame, _, _ = channel.basic_get(QUEUE)
    assert not frame.redelivered


def test_a_message_is_published(page: Page, channel: BlockingChannel) -> None:
    open_part(page, "Publish")
    page.get_by_role("textbox", name="Payload").fill("hello")
    page.get_by_role("textbox", name="Headers").fill("source = page\ntries = 3")
    page.get_by_role("textbox", name="Properties").fill("content_type = text/plain")
    page.set_viewport_size({"width": 1280, "height": 500})
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("The message was published.")).to_be_in_viewport(ratio=1)
    _, properties, body = channel.basic_get(QUEUE, auto_ack=True)
    assert body == b"hello"
    assert properties.headers == {"source": "page", "tries": 3}
    assert (properties.content_type, properties.delivery_mode) == ("text/plain", 2)


def test_messages_are_got_and_gone(page: Page, channel: BlockingChannel, api: Api) -> None:
    put(channel, b"one", b"two", b"three")
    open_part(page, "Get")
    page.get_by_label("How many").first.fill("2")
    page.get_by_label("What becomes of them").select_option("they are acknowledged and gone")
    page.get_by_role("button", name="Get", exact=True).click()
    expect(page.locator("#got article")).to_have_count(2)
    expect(page.locator("#got")).to_contain_text("2 got, 1 left.")
    assert count(api) == 1


def test_messages_are_purged_after_a_question(
    page: Page, channel: BlockingChannel, api: Api
) -> None:
    put(channel, b"one", b"two")
    open_part(page, "Purge and delete")
    page.get_by_role("button", name="Purge messages").click()
    page.get_by_role("button", name="Cancel").click()
    assert count(api) == 2
    page.get_by_role("button", name="Purge messages").click()
    page.get_by_role("button", name="Yes, do it").click()
    expect(page.get_by_text("was purged.")).to_be_visible()
    assert count(api) == 0


def test_messages_are_moved_in_their_order(page: Page, channel: BlockingChannel, api: Api) -> None:
    channel.queue_declare("elsewhere")
    channel.queue_purge("elsewhere")
    put(channel, *(b"%d" % number for number in range(150)))
    open_part(page, "Move")
    page.get_by_label("To queue").fill("nowhere")
    page.get_by_role("button", name="Move messages").click()
    expect(page.get_by_role("alert")).to_contain_text("there is no queue 'nowhere'")
    page.get_by_label("To queue").fill("elsewhere")
    page.get_by_label("How many").last.fill("120")
    page.get_by_role("button", name="Move messages").click()
    expect(page.get_by_text("120 messages were moved to “elsewhere”.")).to_be_visible()
    assert (count(api), count(api, "elsewhere")) == (30, 120)
    frame, _, body = channel.basic_get(QUEUE)
    assert (body, frame.redelivered) == (b"120", False)
    bodies = [channel.basic_get("elsewhere", auto_ack=True)[2] for _ in range(120)]
    assert bodies == [b"%d" % number for number in range(120)]


def test_a_queue_is_bound_and_unbound(page: Page, api: Api) -> None:
    open_part(page, "Add a binding")
    page.get_by_label("From exchange").fill("amq.topic")
    page.get_by_label("Routing key", exact=True).fill("some.*")
    page.get_by_role("button", name="Bind", exact=True).click()
    expect(page.get_by_role("cell", name="some.*")).to_be_visible()
    assert len(api.must(api.get("queues", "/", QUEUE, "bindings"))) == 2
    page.get_by_role("button", name="Unbind").click()
    expect(page.get_by_text("The binding is gone.")).to_be_visible()
    assert len(api.must(api.get("queues", "/", QUEUE, "bindings"))) == 1


def test_a_queue_says_why_it_has_its_settings(page: Page, api: Api) -> None:
    policy = {"pattern": "^orders", "definition": {"max-length": 10}, "priority": 3}
    api.must(api.put("policies", "/", "short", body=policy))
    page.goto(PATH)
    page.get_by_role("button", name="Why does it have these settings?").click()
    row = page.locator("#explained").get_by_role("row", name="max-length")
    expect(row).to_contain_text("10")
    expect(row).to_contain_text("short")
    api.must(api.delete("policies", "/", "short"))
