"""Health checks, alarms and who they hold up, limits set by HTTP: T170."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from acceptance.management_client import Answer, Api
from broker_process import Address, BrokerProcess

OK = {"status": "ok"}
SEEN_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose alarms hold nobody else up."""
    broker = BrokerProcess(tmp_path_factory.mktemp("alarmed"))
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def alarmed(own: BrokerProcess) -> Iterator[Api]:
    """An API to set alarms with; there are none before and after the test."""
    api = Api(Address("127.0.0.1", own.http_port))
    yield api
    must(set_limit(api, "vm-memory-high-watermark", value=0.4))
    must(set_limit(api, "disk-free-limit", value="1MB"))


def must(answer: Answer) -> None:
    assert answer.status < 300, answer


def node_of(api: Api) -> str:
    return str(api.must(api.get("overview"))["node"])


def set_limit(api: Api, limit: str, **body: object) -> Answer:
    return api.put("warren", "nodes", node_of(api), limit, body=body)


@pytest.mark.parametrize(
    "check", ["alarms", "local-alarms", "virtual-hosts", "certificate-expiration/1/months"]
)
def test_a_healthy_node_passes_its_checks(api: Api, check: str) -> None:
    answer = api.get("health", "checks", *check.split("/"))
    assert (answer.status, answer.body) == (200, OK)


def test_a_single_node_is_never_critical(api: Api) -> None:
    for check in ("node-is-quorum-critical", "node-is-mirror-sync-critical"):
        answer = api.get("health", "checks", check)
        assert (answer.status, answer.body) == (200, {**OK, "reason": "single node cluster"})


def test_listeners_are_checked_by_port(api: Api, broker: Address) -> None:
    port = broker.port
    assert api.get("health", "checks", "port-listener", str(port)).body == {**OK, "port": port}
    answer = api.get("health", "checks", "port-listener", "1")
    assert (answer.status, answer.body["status"]) == (503, "failed")
    assert (answer.body["reason"], answer.body["missing"]) == ("No active listener", 1)
    assert port in answer.body["ports"]
    assert api.get("health", "checks", "port-listener", "x").refusal == (
        400,
        "bad_request",
        "Invalid port",
    )


def test_listeners_are_checked_by_protocol(api: Api) -> None:
    for name in ("amqp", "amqp091"):
        answer = api.get("health", "checks", "protocol-listener", name)
        assert answer.body == {**OK, "protocol": "amqp"}
    answer = api.get("health", "checks", "protocol-listener", "mqtt")
    assert (answer.status, answer.body["missing"]) == (503, "mqtt")
    assert "amqp" in answer.body["protocols"]


@pytest.mark.parametrize(
    ("within", "unit", "reason"),
    [
        ("x", "months", "Invalid expiration value."),
        ("1", "x", "Time unit not recognised. Supported units: days, weeks, months, years."),
    ],
)
def test_times_of_expiry_are_checked(api: Api, within: str, unit: str, reason: str) -> None:
    answer = api.get("health", "checks", "certificate-expiration", within, unit)
    assert answer.refusal == (400, "bad_request", reason)


def test_a_live_virtual_host_passes_a_message(api: Api, vhost: str) -> None:
    for _ in range(2):
        answer = api.get("aliveness-test", vhost)
        assert (answer.status, answer.body) == (200, OK)
    everything = {"count": 10, "ackmode": "ack_requeue_true", "encoding": "auto"}
    assert api.post("queues", vhost, "aliveness-test", "get", body=everything).body == []
    assert api.get("aliveness-test", "nope").status == 404


def test_the_older_check_of_a_node_is_there(api: Api) -> None:
    assert api.get("healthchecks", "node").body == OK
    assert api.get("healthchecks", "node", "nope").status == 404


def test_t170_an_alarm_fails_the_checks(alarmed: Api) -> None:
    node = node_of(alarmed)
    must(set_limit(alarmed, "vm-memory-high-watermark", value=0))
    alarms = [{"node": node, "resource": "memory"}]
    answer = alarmed.get("health", "checks", "alarms")
    reason = "There are alarms in effect in the cluster"
    assert (answer.status, answer.body) == (
        503,
        {"status": "failed", "reason": reason, "alarms": alarms},
    )
    answer = alarmed.get("health", "checks", "local-alarms")
    assert (answer.status, answer.body["alarms"]) == (503, alarms)
    assert answer.body["reason"] == "There are alarms in effect on the node"
    assert alarmed.must(alarmed.get("nodes", node))["mem_alarm"] is True
    must(set_limit(alarmed, "vm-memory-high-watermark", value=0.4))
    assert alarmed.get("health", "checks", "alarms").status == 200


def test_t170_a_disk_that_is_too_full_fails_the_checks(alarmed: Api) -> None:
    must(set_limit(alarmed, "disk-free-limit", value="900000GB"))
    answer = alarmed.get("health", "checks", "alarms")
    assert (answer.status, answer.body["alarms"][0]["resource"]) == (503, "disk")
    shown = alarmed.must(alarmed.get("nodes"))[0]
    assert (shown["disk_free_alarm"], shown["disk_free_limit"]) == (True, 900_000 * 10**9)
    must(set_limit(alarmed, "disk-free-limit", mem_relative=0.0))
    assert alarmed.get("health", "checks", "alarms").status == 200


def test_an_alarm_is_shown_with_its_beginning_and_those_it_holds_up(
    alarmed: Api, own: BrokerProcess
) -> None:
    parameters = pika.ConnectionParameters(*own.address)
    with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
        channel = connection.channel()
        must(set_limit(alarmed, "vm-memory-high-watermark", absolute="1MiB"))
        (alarm,) = alarmed.must(alarmed.get("warren", "alarms"))
        assert (alarm["node"], alarm["resource"]) == (node_of(alarmed), "memory")
        assert alarm["since"].startswith(time.strftime("%Y-", time.gmtime()))
        assert alarm["blocked_connections"] == []
        channel.basic_publish("", "nowhere", b"waits")
        deadline = time.monotonic() + SEEN_WITHIN_S
        while not alarm["blocked_connections"] and time.monotonic() < deadline:
            connection.sleep(0.05)
            (alarm,) = alarmed.must(alarmed.get("warren", "alarms"))
        (blocked,) = alarm["blocked_connections"]
        (shown,) = alarmed.must(alarmed.get("connections"))
        assert (blocked["name"], blocked["user"]) == (shown["name"], "guest")
        assert (shown["state"], shown["bottleneck"]) == ("blocked", "an alarm: low on memory")
        must(set_limit(alarmed, "vm-memory-high-watermark", value=0.4))
        assert alarmed.must(alarmed.get("warren", "alarms")) == []


@pytest.mark.parametrize(
    ("limit", "body"),
    [
        ("vm-memory-high-watermark", {"value": "much"}),
        ("vm-memory-high-watermark", {"value": -1}),
        ("vm-memory-high-watermark", {"absolute": "2XB"}),
        ("vm-memory-high-watermark", {}),
        ("disk-free-limit", {"value": "-1"}),
        ("disk-free-limit", {"mem_relative": None}),
        ("log-level", {"level": "loud"}),
    ],
)
def test_limits_that_make_no_sense_are_refused(
    alarmed: Api, limit: str, body: dict[str, object]
) -> None:
    assert set_limit(alarmed, limit, **body).status == 400


def test_the_log_level_can_be_changed(alarmed: Api) -> None:
    for level in ("debug", "info"):
        must(set_limit(alarmed, "log-level", level=level))


def test_the_environment_shows_settings_and_hides_secrets(alarmed: Api) -> None:
    shown = alarmed.must(alarmed.get("warren", "environment"))
    values = {row["key"]: row["value"] for row in shown}
    assert values["heartbeat"] == 60
    assert values["default_pass"] == "********"
    assert values["loopback_users"] == ["guest"]


def test_a_node_stops_when_it_is_told_to(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    process = broker.launch()
    try:
        broker.await_ready()
        api = Api(Address("127.0.0.1", broker.http_port))
        must(api.post("warren", "nodes", node_of(api), "stop"))
        assert process.wait(SEEN_WITHIN_S) == 0
    finally:
        broker.kill()
