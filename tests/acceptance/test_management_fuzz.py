"""Any request to any address of the API is answered, and never with a 500.

Addresses and methods are those that the API has; names, queries and bodies are drawn: what exists,
what does not, and what makes no sense, in the members that handlers look for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acceptance.management_client import Api
from broker_process import Address, BrokerProcess
from warren.management.application import FAMILIES
from warren.management.resource import Resource

REQUESTS: Final = 600

NAMES: Final = {
    "vhost": ["/", "fuzz", "none", "a/b"],
    "queue": ["q", "none", "amq.q", "q" * 300],
    "exchange": ["amq.topic", "amq.default", "x", "none"],
    "source": ["amq.topic", "amq.default", "x", "none"],
    "destination": ["q", "amq.fanout", "none"],
    "kind": ["q", "e", "z"],
    "user": ["fuzzer", "none"],
    "component": ["vhost-limits", "operator_policy", "policy", "none"],
    "name": ["limits", "max-queues", "max-channels", "p", "none"],
    "properties_key": ["~", "k", "k~abc", "~~~"],
    "node": ["none@where"],
}
MEMBERS: Final = (
    "durable", "auto_delete", "internal", "type", "arguments", "node", "tags", "password",
    "password_hash", "hashing_algorithm", "limits", "configure", "write", "read", "exchange",
    "pattern", "definition", "priority", "apply-to", "value", "name", "routing_key", "payload",
    "payload_encoding", "properties", "count", "ackmode", "encoding", "truncate", "users", "vhosts",
    "queues", "exchanges", "bindings", "policies", "parameters", "permissions",
    "topic_permissions", "global_parameters", "action", "description", "metadata", "tracing",
    "vhost", "component", "source", "destination", "destination_type", "level",
)  # fmt: skip

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["true", "fuzz", "/", "q", "direct", "topic", "^a", "(", "base64", "!"])
)
plain = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
objects = st.dictionaries(st.sampled_from(MEMBERS), plain, max_size=6)
bodies = objects | st.dictionaries(st.sampled_from(MEMBERS), st.lists(objects, max_size=2)) | plain
query_names = st.sampled_from(
    ["page", "page_size", "name", "use_regex", "sort", "sort_reverse", "columns", "if-unused",
     "if-empty", "offset", "limit", "filter", "lengths_age", "lengths_incr", "download"]
)  # fmt: skip
queries = st.dictionaries(
    query_names,
    st.sampled_from(["0", "1", "-1", "x", "", "(", "true", "a.b,c", "name", "1e9", "\0", "ü"]),
    max_size=3,
)


def requests() -> list[tuple[str, Resource]]:
    methods = ("GET", "PUT", "POST", "DELETE")
    every = [resource for family in FAMILIES for resource in family]
    return [
        (method, resource) for resource in every for method in methods if resource.handler(method)
    ]


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, Api]]:
    process = BrokerProcess(tmp_path_factory.mktemp("fuzzed"))
    process.start()
    api = Api(Address("127.0.0.1", process.http_port))
    api.must(api.put("vhosts", "fuzz"))
    yield process, api
    process.stop()


@st.composite
def drawn_path(draw: st.DrawFn, resource: Resource) -> str:
    parts = []
    for part in resource.path.strip("/").split("/"):
        if not part.startswith("{"):
            parts.append(part)
            continue
        known = NAMES.get(part[1:-1], ["none"])
        name = draw(st.sampled_from(known) | st.text(min_size=1, max_size=6))
        parts.append(quote(name, safe=""))
    query = draw(queries)
    asked = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    return f"/api/{'/'.join(parts)}" + (f"?{asked}" if asked else "")


@settings(
    max_examples=REQUESTS,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_no_request_is_answered_with_a_500(
    fuzzed: tuple[BrokerProcess, Api], data: st.DataObject
) -> None:
    process, api = fuzzed
    method, resource = data.draw(st.sampled_from(requests()))
    path = data.draw(drawn_path(resource))
    body: Any = data.draw(bodies) if method in {"PUT", "POST"} else None
    raw = None if body is None else json.dumps(body).encode()
    answer = api.call(method, path, raw=raw)
    is_sick = answer.status == 503 and resource.path.startswith("/health/checks/")
    assert answer.status < 500 or is_sick, (method, path, body, answer.body, process.log()[-3000:])
