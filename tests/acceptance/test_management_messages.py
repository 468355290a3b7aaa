"""Publishing and getting messages by HTTP: T164, and requests that make no sense."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from acceptance.management_client import Answer, Api

TEXT: dict[str, Any] = {
    "properties": {},
    "routing_key": "orders",
    "payload": "one blanket",
    "payload_encoding": "string",
}
ALL: dict[str, Any] = {"count": 100, "ackmode": "ack_requeue_true", "encoding": "auto"}


def publish(api: Api, vhost: str, exchange: str = "amq.default", **changes: Any) -> Answer:
    return api.post("exchanges", vhost, exchange, "publish", body={**TEXT, **changes})


def get(api: Api, vhost: str, queue: str = "orders", **changes: Any) -> Answer:
    return api.post("queues", vhost, queue, "get", body={**ALL, **changes})


def payloads(answer: Answer) -> list[str]:
    assert answer.status == 200, answer
    return [message["payload"] for message in answer.body]


@pytest.fixture
def queue(api: Api, vhost: str) -> str:
    api.must(api.put("queues", vhost, "orders", body={"durable": True}))
    return "orders"


@pytest.mark.usefixtures("queue")
def test_t164_a_message_is_published_and_got(api: Api, vhost: str) -> None:
    assert publish(api, vhost).body == {"routed": True}
    assert get(api, vhost).body == [
        {
            "payload_bytes": 11,
            "redelivered": False,
            "exchange": "",
            "routing_key": "orders",
            "message_count": 0,
            "properties": [],
            "payload": "one blanket",
            "payload_encoding": "string",
        }
    ]


@pytest.mark.usefixtures("queue")
def test_t164_an_unroutable_message_is_not_routed(api: Api, vhost: str) -> None:
    assert publish(api, vhost, routing_key="nowhere").body == {"routed": False}
    assert publish(api, vhost, exchange="amq.direct").body == {"routed": False}


@pytest.mark.usefixtures("queue")
def test_t164_properties_come_back_as_they_were(api: Api, vhost: str) -> None:
    properties = {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "headers": {"n": 1, "s": "text", "f": 1.5, "list": [1, "x", {"y": 2}], "t": {"b": True}},
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "100000",
        "message_id": "m",
        "timestamp": 1234567890,
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
        "cluster_id": "z",
    }
    assert publish(api, vhost, properties=properties).body == {"routed": True}
    assert get(api, vhost).body[0]["properties"] == properties


@pytest.mark.usefixtures("queue")
def test_t164_what_is_requeued_can_be_got_again(api: Api, vhost: str) -> None:
    for number in range(3):
        publish(api, vhost, payload=str(number))
    for mode in ("ack_requeue_true", "reject_requeue_true"):
        answer = get(api, vhost, ackmode=mode)
        assert payloads(answer) == ["0", "1", "2"]
        assert [message["message_count"] for message in answer.body] == [2, 1, 0]
    assert [message["redelivered"] for message in get(api, vhost).body] == [True] * 3


@pytest.mark.usefixtures("queue")
def test_t164_what_is_acknowledged_is_gone_and_what_is_rejected_is_dead_lettered(
    api: Api, vhost: str
) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}
    api.must(api.put("queues", vhost, "first", body={"arguments": arguments}))
    for text in ("rejected", "acknowledged"):
        publish(api, vhost, routing_key="first", payload=text)
    rejected = get(api, vhost, "first", ackmode="reject_requeue_false", count=1)
    assert payloads(rejected) == ["rejected"]
    assert payloads(get(api, vhost, "first", ackmode="ack_requeue_false")) == ["acknowledged"]
    assert payloads(get(api, vhost, "first")) == []
    (dead,) = get(api, vhost).body
    assert dead["payload"] == "rejected"
    assert dead["properties"]["headers"]["x-death"][0]["reason"] == "rejected"


@pytest.mark.usefixtures("queue")
def test_t164_octets_that_are_no_text_travel_in_base64(api: Api, vhost: str) -> None:
    octets = base64.b64encode(b"\xff\xfe\x00abc").decode()
    assert publish(api, vhost, payload=octets, payload_encoding="base64").status == 200
    (message,) = get(api, vhost).body
    assert (message["payload"], message["payload_encoding"]) == (octets, "base64")
    publish(api, vhost, payload="äöü")
    message = get(api, vhost, encoding="base64").body[1]
    assert message["payload"] == base64.b64encode("äöü".encode()).decode()


@pytest.mark.usefixtures("queue")
def test_long_bodies_are_cut_where_it_is_asked_for(api: Api, vhost: str) -> None:
    publish(api, vhost, payload="äöü")
    (message,) = get(api, vhost, truncate=2).body
    assert (message["payload"], message["payload_bytes"]) == ("ä", 6)
    # In the middle of a character what is left is no text any more.
    (message,) = get(api, vhost, truncate="3").body
    assert (message["payload"], message["payload_encoding"]) == ("w6TD", "base64")
    assert payloads(get(api, vhost, truncate=0)) == [""]


@pytest.mark.usefixtures("queue")
def test_as_many_as_asked_for_are_got(api: Api, vhost: str) -> None:
    for number in range(5):
        publish(api, vhost, payload=str(number))
    assert payloads(get(api, vhost, count=2)) == ["0", "1"]
    assert payloads(get(api, vhost, count="3")) == ["0", "1", "2"]
    assert payloads(get(api, vhost, count=0)) == []
    assert len(payloads(get(api, vhost, count=-1))) == 5


def test_a_queue_that_refuses_a_message_makes_it_a_bad_request(api: Api, vhost: str) -> None:
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    api.must(api.put("queues", vhost, "orders", body={"arguments": arguments}))
    assert publish(api, vhost).status == 200
    reason = "rejected Unable to publish message. Check queue limits."
    assert publish(api, vhost).refusal == (400, "bad_request", reason)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"payload_encoding": "nope"}, ["unsupported_encoding", "nope"]),
        ({"payload_encoding": "base64", "payload": "%%%"}, ["not_base64", "%%%"]),
        ({"payload": 5}, "payload_not_string"),
        ({"payload": None}, "payload_not_string"),
        ({"properties": {"delivery_mode": "2"}}, ["not_int", "delivery_mode"]),
        ({"properties": {"priority": "x"}}, ["not_int", "priority"]),
        ({"properties": {"timestamp": "x"}}, ["not_int", "timestamp"]),
        ({"properties": {"content_type": 5}}, ["not_string", "content_type"]),
        ({"properties": {"headers": {"x": None}}}, "null_not_allowed"),
        (
            {"properties": {"delivery_mode": 7}},
            "406 PRECONDITION_FAILED - invalid message: {delivery_mode_unknown,7}",
        ),
        (
            {"properties": {"expiration": "x"}},
            "406 PRECONDITION_FAILED - invalid expiration 'x': no_integer",
        ),
        (
            {"properties": {"user_id": "me"}},
            (
                "406 PRECONDITION_FAILED - user_id property set to 'me' "
                "but authenticated user was 'guest'"
            ),
        ),
    ],
)
def test_a_publish_that_makes_no_sense_is_refused(
    api: Api, vhost: str, changes: dict[str, Any], reason: object
) -> None:
    assert publish(api, vhost, **changes).refusal == (400, "bad_request", reason)


@pytest.mark.parametrize("missing", sorted(TEXT))
def test_a_publish_without_one_of_its_parts_is_refused(api: Api, vhost: str, missing: str) -> None:
    body = {name: value for name, value in TEXT.items() if name != missing}
    answer = api.post("exchanges", vhost, "amq.default", "publish", body=body)
    assert answer.refusal == (400, "bad_request", f"[{{key_missing,{missing}}}]")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"encoding": "x"}, "Unsupported encoding. Please use auto or base64."),
        ({"count": "x"}, ["not_integer", "x"]),
        ({"count": None}, ["not_integer", None]),
        ({"truncate": "x"}, ["not_integer", "x"]),
    ],
)
@pytest.mark.usefixtures("queue")
def test_a_get_that_makes_no_sense_is_refused(
    api: Api, vhost: str, changes: dict[str, Any], reason: object
) -> None:
    assert get(api, vhost, **changes).refusal == (400, "bad_request", reason)


def test_what_is_not_there_cannot_be_used(api: Api, vhost: str) -> None:
    reason = f"404 NOT_FOUND - no exchange 'nope' in vhost '{vhost}'"
    assert publish(api, vhost, exchange="nope").refusal == (400, "bad_request", reason)
    reason = f"NOT_FOUND - no queue 'nope' in vhost '{vhost}'"
    assert get(api, vhost, "nope").refusal == (404, "not_found", reason)
    refused = (401, "not_authorised", "Access refused.")
    assert publish(api, "nope").refusal == refused
    assert get(api, "nope").refusal == refused


def test_an_internal_exchange_cannot_be_published_to(api: Api, vhost: str) -> None:
    api.must(api.put("exchanges", vhost, "inside", body={"type": "direct", "internal": True}))
    reason = f"403 ACCESS_REFUSED - cannot publish to internal exchange 'inside' in vhost '{vhost}'"
    assert publish(api, vhost, exchange="inside").refusal == (400, "bad_request", reason)


@pytest.mark.usefixtures("queue")
def test_permissions_are_asked_as_of_a_client(api: Api, vhost: str) -> None:
    name = f"{vhost}-user"
    api.must(api.put("users", name, body={"password": "x", "tags": "management"}))
    nothing = {"configure": "", "write": "", "read": ""}
    api.must(api.put("permissions", vhost, name, body=nothing))
    user = api.as_user(name, "x")
    reason = (
        f"403 ACCESS_REFUSED - access to exchange 'amq.default' in vhost '{vhost}' "
        f"refused for user '{name}'"
    )
    assert publish(user, vhost).refusal == (400, "bad_request", reason)
    reason = (
        f"ACCESS_REFUSED - access to queue 'orders' in vhost '{vhost}' refused for user '{name}'"
    )
    assert get(user, vhost).refusal == (401, "not_authorised", reason)
    api.delete("users", name)


def test_only_post_publishes_and_gets(api: Api, vhost: str) -> None:
    for path in (
        ["exchanges", vhost, "amq.default", "publish"],
        ["queues", vhost, "orders", "get"],
    ):
        answer = api.get(*path)
        assert (answer.status, answer.headers["allow"]) == (405, "POST, OPTIONS")


@pytest.mark.usefixtures("queue")
def test_a_queue_without_mirrors_has_nothing_to_synchronise(api: Api, vhost: str) -> None:
    path = ["queues", vhost, "orders", "actions"]
    assert api.post(*path, body={"action": "sync"}).status == 204
    assert api.post(*path, body={"action": "cancel_sync"}).status == 204
    unknown = api.post(*path, body={"action": "nope"})
    assert unknown.refusal == (400, "bad_request", ["unknown", "nope"])
