"""Exchanges, queues and bindings over HTTP: RabbitMQ's codes, bodies and fields."""

from __future__ import annotations

import time

import pika
import pytest

from acceptance.actions import eventually
from acceptance.management_client import Answer, Api
from broker_process import Address

EXCHANGE_FIELDS = {
    "arguments", "auto_delete", "durable", "internal", "name", "type",
    "user_who_performed_action", "vhost",
}  # fmt: skip


@pytest.mark.parametrize("family", ["exchanges", "queues"])
def test_t162_put_says_whether_it_is_new(api: Api, vhost: str, family: str) -> None:
    assert api.put(family, vhost, "thing", body={"durable": True}).status == 201
    assert api.put(family, vhost, "thing", body={"durable": True}).status == 204
    changed = api.put(family, vhost, "thing", body={"durable": False})
    kind = family.removesuffix("s")
    reason = (
        f"inequivalent arg 'durable' for {kind} 'thing' in vhost '{vhost}': "
        "received 'false' but current is 'true'"
    )
    assert changed.refusal == (400, "bad_request", reason)
    assert api.delete(family, vhost, "thing").status == 204
    assert api.delete(family, vhost, "thing").refusal == (404, "Object Not Found", "Not Found")


def test_an_exchange_is_shown_as_it_was_declared(api: Api, vhost: str) -> None:
    arguments = {"alternate-exchange": "other", "n": 1.5, "l": [1, "a", {"b": True}]}
    body = {
        "type": "topic",
        "durable": True,
        "auto_delete": "true",
        "internal": True,
        "arguments": arguments,
    }
    assert api.put("exchanges", vhost, "x", body=body).status == 201
    shown = api.must(api.get("exchanges", vhost, "x"))
    assert shown == {
        "name": "x", "vhost": vhost, "type": "topic", "durable": True, "auto_delete": True,
        "internal": True, "arguments": arguments, "user_who_performed_action": "guest",
        "incoming": [], "outgoing": [],
    }  # fmt: skip


def test_what_is_not_said_of_an_exchange_is_the_least(api: Api, vhost: str) -> None:
    api.must(api.put("exchanges", vhost, "x", body={}))
    shown = api.must(api.get("exchanges", vhost, "x"))
    assert (shown["type"], shown["durable"], shown["auto_delete"]) == ("direct", False, False)


def test_every_virtual_host_has_the_predeclared_exchanges(api: Api, vhost: str) -> None:
    listed = api.must(api.get("exchanges", vhost))
    assert [(x["name"], x["type"]) for x in listed] == [
        ("", "direct"), ("amq.direct", "direct"), ("amq.fanout", "fanout"),
        ("amq.headers", "headers"), ("amq.match", "headers"), ("amq.rabbitmq.trace", "topic"),
        ("amq.topic", "topic"),
    ]  # fmt: skip
    assert all(set(x) >= EXCHANGE_FIELDS for x in listed)
    assert api.must(api.get("exchanges", vhost, "amq.default"))["name"] == ""


@pytest.mark.parametrize(
    ("name", "body", "refusal"),
    [
        ("amq.new", {}, (401, "not_authorised", "Access refused.")),
        ("amq.default", {}, (401, "not_authorised", "Access refused.")),
        ("x", {"durable": "yes"}, (400, "bad_request", ["not_boolean", "yes"])),
        ("x", {"arguments": {"a": None}}, (400, "bad_request", "null_not_allowed")),
    ],
)
def test_what_cannot_be_an_exchange_is_refused(
    api: Api, vhost: str, name: str, body: object, refusal: tuple[int, str, object]
) -> None:
    assert api.put("exchanges", vhost, name, body=body).refusal == refusal


def test_an_exchange_of_an_unknown_type_is_refused(api: Api, vhost: str) -> None:
    status, error, reason = api.put("exchanges", vhost, "x", body={"type": "f-nope"}).refusal
    assert (status, error) == (400, "bad_request")
    assert "exchange type 'f-nope'" in reason


def test_predeclared_exchanges_cannot_be_deleted(api: Api, vhost: str) -> None:
    for name in ("amq.direct", "amq.default"):
        refusal = api.delete("exchanges", vhost, name).refusal
        assert refusal == (401, "not_authorised", "Access refused.")


def test_what_is_in_a_virtual_host_that_does_not_exist_is_not_found(api: Api) -> None:
    missing = (404, "not_found", "vhost_not_found")
    assert api.put("exchanges", "f-none", "x", body={}).refusal == missing
    assert api.put("queues", "f-none", "q", body={}).refusal == missing
    nothing = (404, "Object Not Found", "Not Found")
    for family in ("exchanges", "queues", "bindings"):
        assert api.get(family, "f-none").refusal == nothing


QUEUE_FIELDS = {
    "arguments", "auto_delete", "durable", "exclusive", "name", "node", "state", "type", "vhost",
    "policy", "operator_policy", "effective_policy_definition", "messages", "messages_details",
    "messages_ready", "messages_ready_details", "messages_unacknowledged",
    "messages_unacknowledged_details", "messages_ram", "messages_ready_ram",
    "messages_unacknowledged_ram", "messages_persistent", "messages_paged_out", "message_bytes",
    "message_bytes_ready", "message_bytes_unacknowledged", "message_bytes_ram",
    "message_bytes_persistent", "message_bytes_paged_out", "consumers", "consumer_utilisation",
    "consumer_capacity", "memory", "reductions", "reductions_details", "head_message_timestamp",
    "exclusive_consumer_tag", "single_active_consumer_tag", "backing_queue_status",
    "garbage_collection", "recoverable_slaves",
}  # fmt: skip


def eventually_full(api: Api, vhost: str, queue: str) -> Answer:
    """A reference broker gathers its statistics every five seconds."""
    deadline = time.monotonic() + 60
    while True:
        answer = api.get("queues", vhost, queue)
        if "memory" in (answer.body or {}) or time.monotonic() > deadline:
            return answer
        time.sleep(0.2)


def test_a_queue_is_shown_with_all_of_rabbitmqs_fields(api: Api, vhost: str) -> None:
    arguments = {"x-max-length": 5, "x-dead-letter-exchange": "d"}
    body = {"durable": True, "arguments": arguments}
    assert api.put("queues", vhost, "q", body=body).status == 201
    shown = api.must(eventually_full(api, vhost, "q"))
    assert QUEUE_FIELDS - set(shown) == set()
    assert {"consumer_details", "deliveries", "incoming"} <= set(shown)
    assert shown["arguments"] == arguments
    assert (shown["type"], shown["exclusive"], shown["messages"]) == ("classic", False, 0)


def test_a_queue_tells_who_consumes_from_it_and_who_owns_it(
    api: Api, vhost: str, broker: Address
) -> None:
    parameters = pika.ConnectionParameters(broker.host, broker.port, vhost, heartbeat=0)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("mine", exclusive=True)
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume("mine", lambda *_: None, consumer_tag="reader", exclusive=True)

        def details() -> object:
            shown = api.must(api.get("queues", vhost, "mine"))
            consumers = [
                (c["consumer_tag"], c["prefetch_count"], c["ack_required"], c["exclusive"])
                for c in shown["consumer_details"]
            ]
            return consumers, shown.get("exclusive_consumer_tag"), "owner_pid_details" in shown

        eventually(lambda: details() == ([("reader", 7, True, True)], "reader", True))
        owner = api.must(api.get("queues", vhost, "mine"))["owner_pid_details"]
        assert set(owner) == {"name", "peer_host", "peer_port"}


def test_a_quorum_queue_names_its_members(api: Api, vhost: str) -> None:
    body = {"durable": True, "arguments": {"x-queue-type": "quorum"}}
    api.must(api.put("queues", vhost, "q", body=body))
    shown = api.must(api.get("queues", vhost, "q"))
    assert shown["type"] == "quorum"
    assert shown["members"] == shown["online"] == [shown["leader"]]


@pytest.mark.parametrize(
    ("name", "body", "status", "reason"),
    [
        ("amq.q", {}, 401, "Access refused."),
        ("q", {"auto_delete": 5}, 400, ["not_boolean", 5]),
        ("q", {"node": "no@where"}, 400, "Node no@where could not be contacted"),
        ("q" * 256, {}, 400, "queue should be less than 255 bytes, actually was 256\n"),
    ],
)
def test_what_cannot_be_a_queue_is_refused(
    api: Api, vhost: str, name: str, body: object, status: int, reason: object
) -> None:
    answer = api.put("queues", vhost, name, body=body)
    assert (answer.status, answer.body["reason"]) == (status, reason)


def test_a_queue_with_wrong_arguments_is_refused_as_a_channel_would(api: Api, vhost: str) -> None:
    body = {"durable": True, "arguments": {"x-message-ttl": -1}}
    assert api.put("queues", vhost, "q", body=body).refusal == (
        400,
        "bad_request",
        f"invalid arg 'x-message-ttl' for queue 'q' in vhost '{vhost}': {{value_negative,-1}}",
    )


def test_a_queue_is_purged_and_deleted_on_conditions(api: Api, vhost: str, broker: Address) -> None:
    api.must(api.put("queues", vhost, "q", body={}))
    parameters = pika.ConnectionParameters(broker.host, broker.port, vhost, heartbeat=0)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"x", mandatory=True)
        refused = api.delete("queues", vhost, "q", **{"if-empty": "true"})
        wanted = (400, "bad_request", f"queue 'q' in vhost '{vhost}' not empty")
        assert refused.refusal == wanted
        assert api.delete("queues", vhost, "q", "contents").status == 204
        channel.basic_consume("q", lambda *_: None)
        refused = api.delete("queues", vhost, "q", **{"if-unused": "true"})
        assert refused.refusal == (400, "bad_request", f"queue 'q' in vhost '{vhost}' in use")
        assert api.delete("queues", vhost, "q", **{"if-empty": "true"}).status == 204
    assert api.delete("queues", vhost, "q", "contents").status == 404


def test_a_queue_of_another_connection_cannot_be_used(
    api: Api, vhost: str, broker: Address
) -> None:
    parameters = pika.ConnectionParameters(broker.host, broker.port, vhost, heartbeat=0)
    with pika.BlockingConnection(parameters) as connection:
        connection.channel().queue_declare("mine", exclusive=True)
        assert api.must(api.get("queues", vhost, "mine"))["exclusive"] is True
        for answer in (
            api.delete("queues", vhost, "mine"),
            api.delete("queues", vhost, "mine", "contents"),
            api.put("queues", vhost, "mine", body={}),
        ):
            assert answer.status == 400
            assert "cannot obtain exclusive access" in answer.body["reason"]


def test_t163_a_binding_is_made_found_and_deleted(api: Api, vhost: str) -> None:
    api.must(api.put("queues", vhost, "q", body={"durable": True}))
    api.must(api.put("exchanges", vhost, "x", body={"type": "topic", "durable": True}))
    between = ("bindings", vhost, "e", "x", "q", "q")
    made = api.post(*between, body={"routing_key": "a.#"})
    assert (made.status, made.headers["location"]) == (201, "q/a.%2523")
    empty = api.post(*between, body={})
    assert (empty.status, empty.headers["location"]) == (201, "q/~")
    assert [b["properties_key"] for b in api.must(api.get(*between))] == ["~", "a.%23"]
    found = api.must(api.get(*between, "a.%23"))
    assert found == {
        "source": "x", "vhost": vhost, "destination": "q", "destination_type": "queue",
        "routing_key": "a.#", "arguments": {}, "properties_key": "a.%23",
    }  # fmt: skip
    assert api.must(api.get(*between, "~"))["routing_key"] == ""
    assert api.delete(*between, "a.%23").status == 204
    assert api.delete(*between, "a.%23").refusal == (404, "Object Not Found", "Not Found")


def test_a_binding_with_arguments_has_a_key_of_its_own(api: Api, vhost: str) -> None:
    api.must(api.put("queues", vhost, "q w/e", body={"durable": True}))
    between = ("bindings", vhost, "e", "amq.headers", "q", "q w/e")
    arguments = [{"x-match": "all", "n": 1}, {"x-match": "any", "n": 1}]
    for each in arguments:
        made = api.post(*between, body={"routing_key": "a b/c", "arguments": each})
        assert made.status == 201
        assert made.headers["location"].startswith("q+w%2Fe/a%2Bb%252Fc~")
    rows = api.must(api.get(*between))
    assert len({row["properties_key"] for row in rows}) == 2
    for row in rows:
        assert row["properties_key"].startswith("a+b%2Fc~")
        assert api.must(api.get(*between, row["properties_key"])) == row
    assert api.delete(*between, rows[0]["properties_key"]).status == 204
    assert api.must(api.get(*between)) == rows[1:]


def test_bindings_of_exchanges_and_queues_are_listed_from_both_ends(api: Api, vhost: str) -> None:
    api.must(api.put("queues", vhost, "q", body={"durable": True}))
    api.must(api.post("bindings", vhost, "e", "amq.topic", "q", "q", body={"routing_key": "k"}))
    api.must(api.post("bindings", vhost, "e", "amq.topic", "e", "amq.fanout", body={}))

    def ends(*path: str) -> list[tuple[str, str, str]]:
        rows = api.must(api.get(*path))
        return [(row["source"], row["destination"], row["routing_key"]) for row in rows]

    implicit, to_queue = ("", "q", "q"), ("amq.topic", "q", "k")
    to_exchange = ("amq.topic", "amq.fanout", "")
    assert ends("bindings", vhost) == [implicit, to_exchange, to_queue]
    assert ends("queues", vhost, "q", "bindings") == [implicit, to_queue]
    assert ends("exchanges", vhost, "amq.topic", "bindings", "source") == [to_exchange, to_queue]
    assert ends("exchanges", vhost, "amq.fanout", "bindings", "destination") == [to_exchange]
    assert ends("exchanges", vhost, "amq.default", "bindings", "source") == [implicit]
    assert ends("bindings", vhost, "e", "amq.default", "q", "q") == [implicit]


def test_a_binding_without_an_end_is_refused(api: Api, vhost: str) -> None:
    api.must(api.put("queues", vhost, "q", body={}))
    no_exchange = api.post("bindings", vhost, "e", "nope", "q", "q", body={})
    assert no_exchange.refusal == (404, "not_found", f"no exchange 'nope' in vhost '{vhost}'")
    no_queue = api.post("bindings", vhost, "e", "amq.topic", "q", "nope", body={})
    assert no_queue.refusal == (404, "not_found", f"no queue 'nope' in vhost '{vhost}'")
    default = api.post("bindings", vhost, "e", "amq.default", "q", "q", body={})
    assert default.refusal == (401, "not_authorised", "Access refused.")
