"""What a node tells, and to whom: metrics, events, limits, and how browsers take its answers."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.credentials import PlainCredentials

from acceptance.management_client import Api
from broker_process import Address, BrokerProcess, free_port
from live_broker import connection_parameters

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


def make_user(api: Api, name: str, tags: str) -> Api:
    api.must(api.put("users", name, body={"password": "secret", "tags": tags}))
    api.must(api.put("permissions", "/", name, body=EVERYTHING))
    return api.as_user(name, "secret")


def status(port: int, path: str, headers: dict[str, str] | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, None, headers or {})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


@pytest.fixture
def guarded(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[BrokerProcess, int]]:
    """A broker with a port for Prometheus, and this setting for metrics on the other port."""
    port = free_port()
    config = f"prometheus.tcp.port = {port}\nwarren.http_metrics = {request.param}\n"
    broker = BrokerProcess(tmp_path, config)
    broker.start()
    yield broker, port
    broker.stop()


@pytest.mark.parametrize(
    ("guarded", "anybody", "modest", "monitor"),
    [("none", 404, 404, 404), ("login", 401, 401, 200), ("open", 200, 200, 200)],
    indirect=["guarded"],
)
def test_metrics_are_shown_to_whom_the_configuration_says(
    guarded: tuple[BrokerProcess, int], anybody: int, modest: int, monitor: int
) -> None:
    broker, port = guarded
    api = Api(Address("127.0.0.1", broker.http_port))
    users = {tags: make_user(api, tags, tags).credentials for tags in ("management", "monitoring")}
    for path in ("/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_metrics"):
        assert status(broker.http_port, path) == anybody
        assert status(broker.http_port, path, users["management"]) == modest
        assert status(broker.http_port, path, users["monitoring"]) == monitor
        assert status(port, path) == 200


@pytest.mark.parametrize(("tags", "is_let_in"), [("", False), ("monitoring", True)])
def test_events_are_told_to_monitors_only(
    broker: BrokerProcess, api: Api, tags: str, is_let_in: bool
) -> None:
    name = f"listener-{tags or 'none'}"
    make_user(api, name, tags)
    credentials = PlainCredentials(name, "secret")
    options = connection_parameters(broker.address, credentials=credentials)
    with pika.BlockingConnection(options) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        if is_let_in:
            channel.queue_bind(queue, "amq.rabbitmq.event", "#")
            return
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.queue_bind(queue, "amq.rabbitmq.event", "#")
        assert refused.value.reply_code == 403


def test_limits_of_other_users_are_shown_to_monitors_only(api: Api) -> None:
    modest, monitor = (make_user(api, f"limited-{t}", t) for t in ("management", "monitoring"))
    for each in (modest, monitor):
        api.must(api.put("user-limits", each.user, "max-channels", body={"value": 10}))
    assert [row["user"] for row in modest.must(modest.get("user-limits"))] == [modest.user]
    assert modest.get("user-limits", monitor.user).status == 404
    shown = {row["user"] for row in monitor.must(monitor.get("user-limits"))}
    assert shown == {modest.user, monitor.user}


@pytest.mark.parametrize("name", ["cluster_name", "internal_cluster_id"])
def test_parameters_of_the_cluster_are_set_by_administrators(api: Api, name: str) -> None:
    policymaker = make_user(api, "policymaker", "policymaker")
    assert policymaker.put("global-parameters", name, body={"value": "x"}).status == 401
    assert policymaker.delete("global-parameters", name).status == 401
    assert policymaker.put("global-parameters", f"mine-{name}", body={"value": "x"}).status == 201


@pytest.mark.parametrize("path", ["/api/whoami", "/api/nothing", "/api/definitions", "/login"])
def test_browsers_do_not_guess_at_the_type_of_an_answer(
    broker: BrokerProcess, api: Api, path: str
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=60)
    connection.request("GET", path, None, api.credentials)
    assert connection.getresponse().headers["x-content-type-options"] == "nosniff"
    connection.close()
