"""Patterns of tenants that would take for ever: the node answers everybody, stops and starts."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import pytest

from acceptance.management_client import Api
from broker_process import STOPPED_WITHIN_S, BrokerProcess

HARD_NAME = "a" * 48 + "b"
LONG_NAMES = [f"q.{number}." + "x" * 60 for number in range(500)]
PATTERNS = [
    "^(a+)+$",
    "x*x*x*x*y",
    r"(?=(a+)+$)(a+)\1c",
    r"^(?!b)((a|aa)+)\1$",
    "(?:x{1,20}y?){20}z",
]
CPU_S_MAX = 3.0


@pytest.fixture(scope="module")
def tenants(broker: BrokerProcess) -> None:
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    users = {"a-pol": "policymaker", "a-mgmt": "management"}
    queues = [HARD_NAME, *LONG_NAMES]
    api = Api(broker.address._replace(port=broker.http_port))
    definitions = {
        "vhosts": [{"name": "a"}],
        "users": [{"name": name, "password": "secret", "tags": users[name]} for name in users],
        "permissions": [{"user": name, "vhost": "a", **everything} for name in users],
        "queues": [
            {"name": name, "vhost": "a", "durable": True, "auto_delete": False, "arguments": {}}
            for name in queues
        ],
    }
    api.must(api.post("definitions", body=definitions))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_policies_permissions_and_filters_are_matched_or_refused_soon(
    tenants: None, broker: BrokerProcess, api: Api, pattern: str
) -> None:
    policymaker, viewer = api.as_user("a-pol", "secret"), api.as_user("a-mgmt", "secret")
    policy = {"pattern": pattern, "definition": {"max-length": 10}}
    rights = {"configure": pattern, "write": pattern, "read": pattern}
    before_s = broker.cpu_s()
    for answer in (
        policymaker.put("policies", "a", "p", body=policy),
        policymaker.post("warren", "policies", "a", "dry-run", body=policy),
        api.put("permissions", "a", "guest", body=rights),
        viewer.call("GET", f"/api/queues/a?page=1&use_regex=true&name={quote(pattern)}"),
    ):
        assert answer.status in (200, 201, 204, 400), answer
    api.put("queues", "a", HARD_NAME, body={"durable": True})
    assert broker.cpu_s() - before_s < CPU_S_MAX, json.dumps(pattern)


def test_a_node_with_such_policies_stops_and_starts(
    tenants: None, broker: BrokerProcess, api: Api
) -> None:
    """The audited version stored the policy first, and could not be started any more."""
    policymaker = api.as_user("a-pol", "secret")
    for number, pattern in enumerate(PATTERNS):
        policy = {"pattern": pattern, "definition": {"max-length": 10}}
        policymaker.put("policies", "a", f"p{number}", body=policy)
    began = time.monotonic()
    broker.stop()
    assert time.monotonic() - began < STOPPED_WITHIN_S / 2, "it had to be killed"
    broker.start()
    assert policymaker.get("queues", "a", HARD_NAME).status == 200
