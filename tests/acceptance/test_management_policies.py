"""Policies, operator policies and parameters over HTTP, and that they do what they say."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pika
import pytest

from acceptance.management_client import Api
from broker_process import Address

NOT_FOUND = (404, "Object Not Found", "Not Found")
KINDS = ("policies", "operator-policies")


def eventually(ask: Callable[[], Any], wanted: object) -> None:
    """A reference broker shows what applies to a queue only every five seconds."""
    deadline = time.monotonic() + 60
    while (found := ask()) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    assert found == wanted


def test_t168_a_policy_applies_to_queues_and_is_enforced(
    api: Api, vhost: str, broker: Address
) -> None:
    api.must(api.put("queues", vhost, "limited", body={"durable": True}))
    body = {"pattern": "^limited$", "definition": {"max-length": 2}, "apply-to": "queues"}
    assert api.put("policies", vhost, "p", body=body).status == 201

    def applied() -> object:
        shown = api.must(api.get("queues", vhost, "limited"))
        return shown.get("policy"), shown.get("effective_policy_definition")

    eventually(applied, ("p", {"max-length": 2}))
    parameters = pika.ConnectionParameters(broker.host, broker.port, vhost, heartbeat=0)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(5):
            channel.basic_publish("", "limited", b"%d" % number)
        left = [channel.basic_get("limited", auto_ack=True)[2] for _ in range(3)]
        assert left == [b"3", b"4", None]
    assert api.delete("policies", vhost, "p").status == 204
    eventually(applied, (None, {}))


def test_t169_of_two_limits_the_smaller_one_counts(api: Api, vhost: str) -> None:
    api.must(api.put("queues", vhost, "q", body={"durable": True}))
    policy = {"pattern": "", "definition": {"message-ttl": 5000, "max-length": 3}}
    operator = {"pattern": "", "definition": {"message-ttl": 100, "max-length": 10}}
    api.must(api.put("policies", vhost, "p", body=policy))
    api.must(api.put("operator-policies", vhost, "o", body=operator))

    def applied() -> object:
        shown = api.must(api.get("queues", vhost, "q"))
        names = shown.get("policy"), shown.get("operator_policy")
        return *names, shown.get("effective_policy_definition")

    eventually(applied, ("p", "o", {"message-ttl": 100, "max-length": 3}))


def test_a_policy_shows_on_the_exchanges_it_applies_to(api: Api, vhost: str) -> None:
    api.must(api.put("exchanges", vhost, "x", body={"durable": True}))
    body = {"pattern": "^x$", "definition": {"alternate-exchange": "amq.fanout"}}
    api.must(api.put("policies", vhost, "ae", body=body))
    assert api.must(api.get("exchanges", vhost, "x"))["policy"] == "ae"
    assert "policy" not in api.must(api.get("exchanges", vhost, "amq.direct"))


@pytest.mark.parametrize("kind", KINDS)
def test_policies_are_put_shown_and_deleted(api: Api, vhost: str, kind: str) -> None:
    body = {"pattern": "^a", "definition": {"max-length": 5}}
    assert api.put(kind, vhost, "p / 1", body=body).status == 201
    shown = {"vhost": vhost, "name": "p / 1", **body, "apply-to": "all", "priority": 0}
    assert api.must(api.get(kind, vhost, "p / 1")) == shown
    changed = {**body, "apply-to": "queues", "priority": 7}
    assert api.put(kind, vhost, "p / 1", body=changed).status == 204
    assert api.must(api.get(kind, vhost)) == [{**shown, **changed}]
    assert {**shown, **changed} in api.must(api.get(kind))
    assert api.delete(kind, vhost, "p / 1").status == 204
    assert api.delete(kind, vhost, "p / 1").refusal == NOT_FOUND
    assert api.get(kind, vhost, "p / 1").refusal == NOT_FOUND
    assert api.get(kind, "f-none").refusal == NOT_FOUND


@pytest.mark.parametrize("kind", KINDS)
def test_policies_are_listed_by_priority(api: Api, vhost: str, kind: str) -> None:
    for name, priority in (("b", 5), ("a", 5), ("c", -1), ("d", 10)):
        body = {"pattern": "x", "definition": {"max-length": 5}, "priority": priority}
        api.must(api.put(kind, vhost, name, body=body))
    assert [row["name"] for row in api.must(api.get(kind, vhost))] == ["c", "a", "b", "d"]


def policy(**terms: object) -> dict[str, object]:
    return {"pattern": "a", "definition": {"max-length": 5}, **terms}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"pattern": "a"}, "[{key_missing,definition}]"),
        (policy(definition={}), "Validation failed\n\nno policy provided\n"),
        (
            policy(definition={"no": 5}),
            'Validation failed\n\n[{&lt;&lt;"no"&gt;&gt;,5}] are not recognised policy settings\n',
        ),
        (
            policy(definition={"max-length": "<b>"}),
            'Validation failed\n\n&lt;&lt;"&lt;b&gt;"&gt;&gt; is not a valid maximum length\n',
        ),
        (
            policy(**{"apply-to": "x", "priority": "y"}),
            ("Validation failed\n\napply-to 'x' unrecognised; should be 'queues', 'exchanges' or "
            "'all'\npriority should be a number, actually was &lt;&lt;\"y\"&gt;&gt;\n"),
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_a_policy_is_refused(
    api: Api, vhost: str, body: object, reason: str
) -> None:
    assert api.put("policies", vhost, "p", body=body).refusal == (400, "bad_request", reason)


def test_an_operator_policy_may_say_less(api: Api, vhost: str) -> None:
    body = policy(definition={"dead-letter-exchange": "x"})
    reason = (
        'Validation failed\n\n[{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy '
        "settings\n"
    )
    refusal = api.put("operator-policies", vhost, "p", body=body).refusal
    assert refusal == (400, "bad_request", reason)


def test_a_policy_of_no_virtual_host_is_not_found(api: Api) -> None:
    refusal = api.put("policies", "f-none", "p", body=policy()).refusal
    assert refusal == (404, "not_found", "vhost_not_found")


def test_parameters_show_what_components_keep(api: Api, vhost: str) -> None:
    path = ("parameters", "vhost-limits", vhost)
    assert api.put(*path, "limits", body={"value": {"max-queues": 9}}).status in {201, 204}
    row = {"value": {"max-queues": 9}, "vhost": vhost, "component": "vhost-limits",
           "name": "limits"}  # fmt: skip
    assert api.must(api.get(*path, "limits")) == row
    assert api.must(api.get(*path)) == [row]
    assert row in api.must(api.get("parameters", "vhost-limits"))
    assert row in api.must(api.get("parameters"))
    assert api.must(api.get("vhost-limits", vhost))[0]["value"] == {"max-queues": 9}
    assert api.delete(*path, "limits").status == 204
    assert api.get(*path, "limits").refusal == NOT_FOUND
    unknown = api.put("parameters", "nope", vhost, "n", body={"value": {"a": 1}})
    assert unknown.refusal == (
        400, "bad_request", "Validation failed\n\ncomponent nope not found\n",
    )  # fmt: skip
    empty = api.put(*path, "limits", body={})
    assert empty.refusal == (400, "bad_request", "[{key_missing,value}]")
    assert api.get("parameters", "vhost-limits", "f-none").refusal == NOT_FOUND


def test_global_parameters_hold_any_value(api: Api) -> None:
    name = f"f-{uuid.uuid4().hex[:8]}"
    path = ("global-parameters", name)
    assert api.get(*path).refusal == NOT_FOUND
    for status, value in ((201, {"a": [1, {"b": 2.5}]}), (204, "text"), (204, 3)):
        assert api.put(*path, body={"value": value}).status == status
        assert api.must(api.get(*path)) == {"name": name, "value": value}
    assert {"name": name, "value": 3} in api.must(api.get("global-parameters"))
    assert api.delete(*path).status == 204
    assert api.delete(*path).refusal == NOT_FOUND


def test_a_cluster_has_a_name_that_can_be_changed(api: Api) -> None:
    before = api.must(api.get("cluster-name"))
    assert api.put("cluster-name", body={"name": "f-cluster"}).status == 204
    assert api.must(api.get("cluster-name")) == {"name": "f-cluster"}
    assert api.put("cluster-name", body=before).status == 204
    refused = api.put("cluster-name", body={})
    assert refused.refusal == (400, "bad_request", "[{key_missing,name}]")
    api.delete("global-parameters", "cluster_name")
    assert api.must(api.get("cluster-name")) == before


def test_tools_find_what_they_ask_for(api: Api) -> None:
    assert api.must(api.get("extensions"))
    assert api.must(api.call("GET", "/api/auth", headers={}))["enable_uaa"] is False
    flags = {flag["name"]: flag["state"] for flag in api.must(api.get("feature-flags"))}
    assert flags["quorum_queue"] == "enabled"
    assert api.put("feature-flags", "f-nope", "enable").refusal[2] == "unsupported"
    assert api.post("rebalance", "queues").status == 204
    assert api.delete("reset", "no@where").refusal == NOT_FOUND
