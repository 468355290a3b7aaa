"""Publishing, getting and browsing with whatever a body may hold: answered, never with a 500.

The fuzz of all addresses rarely draws every member that these want; here all are there, each drawn
from what makes sense and what does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acceptance.management_client import Api
from broker_process import Address, BrokerProcess

REQUESTS: Final = 250
QUEUES: Final = {
    "plain": {},
    "lazy": {"x-queue-mode": "lazy"},
    "priorities": {"x-max-priority": 5},
    "short": {"x-max-length": 2, "x-overflow": "reject-publish"},
    "dead": {"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-max-length": 5},
}

odd = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300)
headers = st.dictionaries(
    st.sampled_from(["a", "CC", "BCC", "x-death", "x" * 300]),
    st.recursive(odd, lambda inner: st.lists(inner, max_size=2), max_leaves=3),
    max_size=3,
)
properties = st.fixed_dictionaries(
    {},
    optional={
        "headers": headers | odd,
        "delivery_mode": st.sampled_from([1, 2]) | odd,
        "priority": st.integers(-1, 300) | odd,
        "timestamp": st.integers() | odd,
        "expiration": st.sampled_from(["100", "+5", "x", "-1", "9" * 30]) | odd,
        "user_id": st.sampled_from(["guest", "other"]) | odd,
        "reply_to": st.sampled_from(["amq.rabbitmq.reply-to", "q"]) | odd,
        "content_type": odd,
        "message_id": odd,
    },
)
publishes = st.fixed_dictionaries(
    {
        "routing_key": st.sampled_from(list(QUEUES)) | odd,
        "properties": properties | odd,
        "payload": st.text(max_size=20) | odd,
        "payload_encoding": st.sampled_from(["string", "base64"]) | odd,
    }
)
gets = st.fixed_dictionaries(
    {
        "count": st.integers(-2, 20) | odd,
        "ackmode": st.sampled_from(
            ["ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"]
        )
        | odd,
        "encoding": st.sampled_from(["auto", "base64"]) | odd,
    },
    optional={"truncate": st.integers(-1, 20) | odd},
)
exchanges = st.sampled_from(["amq.default", "amq.direct", "amq.topic", "amq.headers", "none"])
queries = st.fixed_dictionaries(
    {},
    optional={
        "offset": st.integers(-1, 50) | st.text(max_size=5),
        "limit": st.integers(-1, 50) | st.text(max_size=5),
        "filter": st.text(max_size=5),
        "truncate": st.integers(-1, 50) | st.text(max_size=5),
    },
)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("fuzzed"))
    process.start()
    api = Api(Address("127.0.0.1", process.http_port))
    for name, arguments in QUEUES.items():
        api.must(api.put("queues", "/", name, body={"durable": True, "arguments": arguments}))
    yield process
    process.stop()


@settings(
    max_examples=REQUESTS,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(exchange=exchanges, queue=st.sampled_from(list(QUEUES)), data=st.data())
def test_messages_are_handled_or_refused(
    fuzzed: BrokerProcess, exchange: str, queue: str, data: st.DataObject
) -> None:
    api = Api(Address("127.0.0.1", fuzzed.http_port))
    body: Any = data.draw(publishes)
    answer = api.post("exchanges", "/", exchange, "publish", body=body)
    assert answer.status in (200, 400), (body, answer, fuzzed.log()[-3000:])
    page = api.get("warren", "queues", "/", queue, "browse", **data.draw(queries))
    assert page.status in (200, 400), (page, fuzzed.log()[-3000:])
    body = data.draw(gets)
    answer = api.post("queues", "/", queue, "get", body=body)
    assert answer.status in (200, 400), (body, answer, fuzzed.log()[-3000:])
