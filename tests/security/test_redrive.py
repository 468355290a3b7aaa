"""A redrive carries messages to queues that dead letters come from, whatever publishers write."""

from __future__ import annotations

import time

import pytest

from acceptance.management_client import Api

FORGED = [{"queue": "payments", "reason": "rejected", "exchange": "in", "count": 1}]


@pytest.fixture
def queues(api: Api) -> None:
    """`orders` has its dead letters go to `dead`, over two exchanges; `payments` has not."""
    for exchange in ("in", "out"):
        api.must(api.put("exchanges", "/", exchange, body={"type": "fanout"}))
    orders = {"x-dead-letter-exchange": "in", "x-message-ttl": 1}
    for queue, arguments in (("payments", {}), ("dead", {}), ("orders", orders)):
        api.must(api.put("queues", "/", queue, body={"arguments": arguments}))
        api.must(api.delete("queues", "/", queue, "contents"))
    api.must(api.post("bindings", "/", "e", "in", "e", "out", body={}))
    api.must(api.post("bindings", "/", "e", "out", "q", "dead", body={}))


def publish(api: Api, exchange: str, key: str, headers: dict[str, object]) -> None:
    body = {
        "routing_key": key, "payload": "p", "payload_encoding": "string",
        "properties": {"headers": headers},
    }  # fmt: skip
    assert api.must(api.post("exchanges", "/", exchange, "publish", body=body))["routed"]


def bodies_in(api: Api, queue: str) -> int:
    body = {"count": 10, "ackmode": "ack_requeue_false", "encoding": "auto"}
    return len(api.must(api.post("queues", "/", queue, "get", body=body)))


@pytest.mark.usefixtures("queues")
def test_a_forged_origin_is_not_believed(api: Api) -> None:
    publish(api, "in", "", {"x-death": FORGED})
    groups = api.must(api.get("warren", "queues", "/", "dead", "dead-letters"))["groups"]
    assert [(g["origin"], g["is_origin_possible"]) for g in groups] == [("payments", False)]
    answer = api.must(api.post("warren", "queues", "/", "dead", "redrive", body={}))
    assert answer == {"moved": 0, "unproved": 1}
    body = {"origin": "payments"}
    answer = api.must(api.post("warren", "queues", "/", "dead", "redrive", body=body))
    assert answer == {"moved": 0, "unproved": 1}
    assert bodies_in(api, "payments") == 0
    assert bodies_in(api, "dead") == 1


@pytest.mark.usefixtures("queues")
def test_what_died_goes_back(api: Api) -> None:
    publish(api, "amq.default", "orders", {})
    deadline = time.monotonic() + 30
    groups: list[dict[str, object]] = []
    while not groups and time.monotonic() < deadline:
        groups = api.must(api.get("warren", "queues", "/", "dead", "dead-letters"))["groups"]

    assert [(g["origin"], g["is_origin_possible"]) for g in groups] == [("orders", True)]
    answer = api.must(api.post("warren", "queues", "/", "dead", "redrive", body={}))
    assert answer == {"moved": 1, "unproved": 0}
