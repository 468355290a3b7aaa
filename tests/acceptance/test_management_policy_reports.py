"""Why a queue has the settings it has, and what a policy would change before it does."""

from __future__ import annotations

from acceptance.management_client import Api

LIMIT = {"pattern": "^or", "definition": {"max-length": 5}, "apply-to": "queues"}


def test_a_queue_explains_its_settings(api: Api, vhost: str) -> None:
    api.must(api.put("queues", vhost, "orders", body={"arguments": {"x-message-ttl": 1000}}))
    shown = api.must(api.get("warren", "queues", vhost, "orders", "explain-policy"))
    assert (shown["policy"], shown["operator_policy"]) == (None, None)
    (value,) = shown["values"]
    assert (value["key"], value["value"], value["origin"]) == ("message-ttl", 1000, "argument")
    assert api.get("warren", "queues", vhost, "nope", "explain-policy").status == 404


def test_an_exchange_explains_its_settings(api: Api, vhost: str) -> None:
    shown = api.must(api.get("warren", "exchanges", vhost, "amq.topic", "explain-policy"))
    assert shown["values"] == []
    assert api.get("warren", "exchanges", vhost, "nope", "explain-policy").status == 404


def test_a_policy_can_be_tried_without_effect(api: Api, vhost: str) -> None:
    for name in ("orders", "invoices"):
        api.must(api.put("queues", vhost, name, body={}))
    path = ["warren", "policies", vhost, "dry-run"]
    (change,) = api.must(api.post(*path, body={"name": "short", **LIMIT}))
    assert (change["kind"], change["name"]) == ("queue", "orders")
    assert (change["before"]["policy"], change["after"]["policy"]) == (None, "short")
    assert change["values"] == [{"key": "max-length", "before": None, "after": 5}]
    explained = api.must(api.get("warren", "queues", vhost, "orders", "explain-policy"))
    assert explained["policy"] is None
    operator = ["warren", "operator-policies", vhost, "dry-run"]
    (change,) = api.must(api.post(*operator, body={"name": "short", **LIMIT}))
    assert change["after"]["operator_policy"] == "short"


def test_a_policy_that_makes_no_sense_is_refused_when_it_is_tried(api: Api, vhost: str) -> None:
    body = {"name": "short", **LIMIT, "definition": {"max-length": "x"}}
    answer = api.post("warren", "policies", vhost, "dry-run", body=body)
    assert answer.status == 400
    assert answer.body["reason"].startswith("Validation failed")
