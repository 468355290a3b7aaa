"""Connections, channels and consumers as the management API shows them, and closing them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.management_client import Api, path_of
from broker_process import Address

Shown = dict[str, Any]
Connect = Callable[..., pika.BlockingConnection]
# RabbitMQ tells of what happens every five seconds.
SHOWN_WITHIN_S = 60.0


@pytest.fixture
def client(broker: Address, vhost: str) -> Iterator[Connect]:
    opened: list[pika.BlockingConnection] = []

    def connect(name: str = "", user: str = "guest", password: str = "guest") -> Any:
        parameters = pika.ConnectionParameters(
            broker.host,
            broker.port,
            vhost,
            pika.PlainCredentials(user, password),
            client_properties={"connection_name": name} if name else None,
        )
        opened.append(pika.BlockingConnection(parameters))
        return opened[-1]

    yield connect
    for connection in opened:
        if connection.is_open:
            connection.close()


def shown(ask: Callable[[], list[Shown]], count: int = 1) -> list[Shown]:
    """So many rows, as soon as they are there."""
    deadline = time.monotonic() + SHOWN_WITHIN_S
    rows = ask()
    while len(rows) != count and time.monotonic() < deadline:
        time.sleep(0.2)
        rows = ask()
    assert len(rows) == count, rows
    return rows


def connections_of(api: Api, vhost: str) -> Callable[[], list[Shown]]:
    return lambda: list(api.must(api.get("vhosts", vhost, "connections")))


def test_a_connection_is_shown_with_what_it_said_and_what_was_agreed(
    api: Api, vhost: str, client: Connect, broker: Address
) -> None:
    before_ms = time.time() * 1000
    connection = client("the invoices")
    connection.channel()
    connection.channel()
    (row,) = shown(connections_of(api, vhost))
    assert row["user_provided_name"] == "the invoices"
    assert row["client_properties"]["connection_name"] == "the invoices"
    assert row["client_properties"]["capabilities"]["basic.nack"] is True
    assert (row["host"], row["port"]) == ("127.0.0.1", broker.port)
    assert row["name"] == f"{row['peer_host']}:{row['peer_port']} -> 127.0.0.1:{broker.port}"
    assert before_ms - 2000 <= row["connected_at"] <= time.time() * 1000 + 2000
    assert (row["user"], row["vhost"], row["state"]) == ("guest", vhost, "running")
    assert (row["protocol"], row["auth_mechanism"]) == ("AMQP 0-9-1", "PLAIN")
    assert (row["ssl"], row["type"], row["channels"]) == (False, "network", 2)
    assert (row["timeout"], row["frame_max"], row["channel_max"]) == (60, 131072, 2047)
    assert row["recv_oct"] > 0
    assert row["send_oct"] > 0
    assert api.must(api.get("connections", row["name"]))["name"] == row["name"]
    assert row["name"] in [each["name"] for each in api.must(api.get("connections"))]
    mine = api.must(api.get("connections", "username", "guest"))
    assert row["name"] in [each["name"] for each in mine]


def test_a_connection_that_is_not_there_is_not_found(api: Api) -> None:
    for path in (["connections", "nope"], ["channels", "nope"], ["channels", "nope (1)"]):
        assert api.get(*path).refusal == (404, "Object Not Found", "Not Found")
    for path in (["vhosts", "nope", "connections"], ["vhosts", "nope", "channels"]):
        assert api.get(*path).refusal == (404, "Object Not Found", "Not Found")
    assert api.get("consumers", "nope").refusal == (404, "Object Not Found", "Not Found")


def test_closing_a_connection_tells_the_client_why(api: Api, vhost: str, client: Connect) -> None:
    connection = client()
    (row,) = shown(connections_of(api, vhost))
    headers = {**api.credentials, "X-Reason": "because I say so"}
    path = path_of(["connections", row["name"]])
    assert api.call("DELETE", path, headers=headers).status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.sleep(SHOWN_WITHIN_S)
    assert closed.value.args == (320, "CONNECTION_FORCED - because I say so")
    shown(connections_of(api, vhost), 0)
    assert api.delete("connections", row["name"]).status == 404


def test_closing_a_connection_without_a_reason(api: Api, vhost: str, client: Connect) -> None:
    connection = client()
    (row,) = shown(connections_of(api, vhost))
    assert api.delete("connections", row["name"]).status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.sleep(SHOWN_WITHIN_S)
    assert closed.value.args == (320, "CONNECTION_FORCED - Closed via management plugin")


def busy_channel(connection: pika.BlockingConnection) -> BlockingChannel:
    channel = connection.channel()
    channel.queue_declare("orders")
    channel.basic_qos(prefetch_count=7)
    channel.confirm_delivery()
    channel.basic_consume(
        "orders", lambda *_: None, consumer_tag="the consumer", arguments={"x-priority": 3}
    )
    for _ in range(3):
        channel.basic_publish("", "orders", b"one blanket")
    return channel


def test_channels_are_shown_with_what_they_hold(api: Api, vhost: str, client: Connect) -> None:
    connection = client()
    busy_channel(connection)
    transactional = connection.channel()
    transactional.tx_select()
    transactional.basic_publish("", "orders", b"not yet")

    def channels_that_hold_something() -> list[Shown]:
        """It is told of later than the channel itself."""
        rows = api.must(api.get("vhosts", vhost, "channels"))
        return [r for r in rows if r["messages_unacknowledged"] == 3 or r["messages_uncommitted"]]

    rows = shown(channels_that_hold_something, 2)
    first, second = sorted(rows, key=lambda row: int(row["number"]))
    name = first["connection_details"]["name"]
    assert first["name"] == f"{name} (1)"
    assert (first["prefetch_count"], first["global_prefetch_count"]) == (7, 0)
    assert (first["messages_unacknowledged"], first["consumer_count"]) == (3, 1)
    assert (first["confirm"], first["transactional"]) == (True, False)
    assert (first["messages_unconfirmed"], first["state"]) == (0, "running")
    assert (second["confirm"], second["transactional"]) == (False, True)
    assert (second["messages_uncommitted"], second["acks_uncommitted"]) == (1, 0)
    of_connection = api.must(api.get("connections", name, "channels"))
    assert sorted(row["number"] for row in of_connection) == [1, 2]
    in_full = api.must(api.get("channels", f"{name} (1)"))
    assert [each["consumer_tag"] for each in in_full["consumer_details"]] == ["the consumer"]


def test_consumers_are_shown_with_their_queue_and_channel(
    api: Api, vhost: str, client: Connect
) -> None:
    busy_channel(client())
    (row,) = shown(lambda: api.must(api.get("consumers", vhost)))
    details = row.pop("channel_details")
    assert row == {
        "ack_required": True,
        "active": True,
        "activity_status": "up",
        "arguments": {"x-priority": 3},
        "consumer_tag": "the consumer",
        "exclusive": False,
        "prefetch_count": 7,
        "queue": {"name": "orders", "vhost": vhost},
    }
    assert (details["number"], details["user"]) == (1, "guest")
    assert details["name"] == f"{details['connection_name']} (1)"
    assert row in [
        {name: value for name, value in each.items() if name != "channel_details"}
        for each in api.must(api.get("consumers"))
    ]


def test_only_one_of_the_consumers_of_a_single_active_queue_is_active(
    api: Api, vhost: str, client: Connect
) -> None:
    channel = client().channel()
    channel.queue_declare("orders", arguments={"x-single-active-consumer": True})
    for tag in ("a", "b"):
        channel.basic_consume("orders", lambda *_: None, consumer_tag=tag)
    rows = shown(lambda: api.must(api.get("consumers", vhost)), 2)
    active = {row["consumer_tag"]: (row["active"], row["activity_status"]) for row in rows}
    assert active == {"a": (True, "single_active"), "b": (False, "waiting")}


@pytest.fixture
def user(api: Api, vhost: str) -> Iterator[Api]:
    """One with the tag `management`, who may do all in the virtual host."""
    api.must(api.put("users", f"{vhost}-user", body={"password": "x", "tags": "management"}))
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    api.must(api.put("permissions", vhost, f"{vhost}-user", body=everything))
    yield api.as_user(f"{vhost}-user", "x")
    api.delete("users", f"{vhost}-user")


def test_a_user_without_the_tag_monitoring_sees_and_closes_its_own_connections(
    api: Api, vhost: str, client: Connect, user: Api
) -> None:
    theirs = client("theirs").channel()
    own = client("own", user.user, "x")
    own_channel = own.channel()
    for channel in (theirs, own_channel):
        channel.queue_declare("orders")
        channel.basic_consume("orders", lambda *_: None)
    rows = shown(connections_of(api, vhost), 2)
    names = {row["user_provided_name"]: row["name"] for row in rows}
    for path in (["connections"], ["vhosts", vhost, "connections"]):
        rows = shown(lambda path=path: user.must(user.get(*path)))  # type: ignore[misc]
        assert rows[0]["name"] == names["own"]
    for path in (["channels"], ["consumers"], ["consumers", vhost]):
        shown(lambda path=path: user.must(user.get(*path)))  # type: ignore[misc]
    refusal = (401, "not_authorised", "User not authorised to access object")
    assert user.get("connections", names["theirs"]).refusal == refusal
    assert user.get("connections", names["theirs"], "channels").refusal == refusal
    assert user.get("channels", names["theirs"] + " (1)").refusal == refusal
    assert user.delete("connections", names["theirs"]).refusal == refusal
    assert user.get("connections", names["own"]).status == 200
    assert user.get("channels", names["own"] + " (1)").status == 200
    assert user.delete("connections", names["own"]).status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        own.sleep(SHOWN_WITHIN_S)
