"""Nodes, connections, channels and exchanges: what they show, and the main thing done to each."""

from __future__ import annotations

import re

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Page, expect

from acceptance.management_client import Api
from broker_process import BrokerProcess
from live_broker import connection_parameters


def test_a_node_shows_what_it_uses_and_takes_new_limits(page: Page, broker: BrokerProcess) -> None:
    name = broker.ask("/api/overview")["node"]
    page.goto("/nodes")
    expect(page.get_by_role("row", name=name).first).to_contain_text("running")
    page.get_by_role("link", name=name).first.click()
    page.locator("summary", has_text="Limits").click()
    page.get_by_label("Memory watermark").fill("3GiB")
    page.get_by_role("button", name="Set limits").click()
    expect(page.get_by_text("The limits are in force")).to_be_visible()
    expect(page.locator("dl", has_text="Watermark").locator("dd").first).to_have_text(
        re.compile(r"3\.0\sGiB")
    )


def test_a_connection_is_looked_at_and_closed(page: Page, broker: BrokerProcess) -> None:
    named = {"connection_name": "to be closed"}
    parameters = connection_parameters(broker.address, client_properties=named)
    connection = pika.BlockingConnection(parameters)
    connection.channel()
    page.goto("/connections")
    page.get_by_role("link", name="to be closed").click()
    expect(page.get_by_role("heading", name="to be closed")).to_be_visible()
    expect(page.locator("#live")).to_contain_text("PLAIN")
    page.get_by_text("Close this connection").click()
    page.get_by_label("Reason").fill("enough")
    page.get_by_role("button", name="Close connection").click()
    page.get_by_role("button", name="Yes, do it").click()
    expect(page.get_by_text("was closed.")).to_be_visible()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="enough"):
        connection.process_data_events(time_limit=None)


def test_a_channel_shows_its_consumers(page: Page, channel: BlockingChannel) -> None:
    channel.queue_declare("eaten")
    channel.basic_qos(prefetch_count=17)
    channel.basic_consume("eaten", lambda *_: None, consumer_tag="the eater")
    page.goto("/channels")
    page.get_by_role("row", name=re.compile("17")).get_by_role("link").click()
    expect(page.get_by_role("rowheader", name="the eater")).to_be_visible()
    page.get_by_role("link", name="eaten").click()
    expect(page.get_by_role("heading", name="eaten")).to_be_visible()


def test_an_exchange_is_declared_bound_published_to_and_deleted(
    page: Page, channel: BlockingChannel, api: Api
) -> None:
    channel.queue_declare("bound")
    page.goto("/exchanges")
    page.get_by_text("Declare an exchange").click()
    page.get_by_label("Name", exact=True).fill("made/by hand")
    page.get_by_label("Type").select_option("topic")
    page.get_by_role("button", name="Declare exchange").click()
    expect(page.get_by_role("heading", name="made/by hand")).to_be_visible()
    page.get_by_text("Add a binding").click()
    page.get_by_label("Name", exact=True).fill("bound")
    page.get_by_label("Routing key").first.fill("a.#")
    page.get_by_role("button", name="Bind", exact=True).click()
    expect(page.get_by_role("cell", name="a.#")).to_be_visible()
    page.locator("summary", has_text="Publish").click()
    page.get_by_label("Routing key").last.fill("b")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("alert")).to_contain_text("not routed")
    page.get_by_label("Routing key").last.fill("a.b")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("The message was published and routed.")).to_be_visible()
    assert channel.basic_get("bound", auto_ack=True)[0] is not None
    page.locator("summary", has_text="Delete").click()
    page.get_by_role("button", name="Delete exchange").click()
    page.get_by_role("button", name="Yes, do it").click()
    expect(page.get_by_text("“made/by hand” was deleted.")).to_be_visible()
    assert api.get("exchanges", "/", "made/by hand").status == 404
