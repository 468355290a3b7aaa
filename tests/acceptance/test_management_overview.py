"""The node at a glance: overview, nodes, and what users with fewer tags see of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from itertools import count
from typing import Final

import pytest

from acceptance.actions import eventually
from acceptance.management_client import Api
from broker_process import Address

# Samples are taken every five seconds.
SAMPLED_WITHIN_S: Final = 60.0
VERSION: Final = "3.10.8"
TOTALS: Final = {"messages", "messages_ready", "messages_unacknowledged"}


@pytest.fixture
def user(api: Api, vhost: str) -> Iterator[Api]:
    name = f"{vhost}-user"
    api.must(api.put("users", name, body={"password": "x", "tags": "management"}))
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    api.must(api.put("permissions", vhost, name, body=everything))
    yield api.as_user(name, "x")
    api.delete("users", name)


def test_the_overview_says_what_this_is_and_where_it_listens(api: Api, broker: Address) -> None:
    shown = api.must(api.get("overview"))
    assert shown["rabbitmq_version"] == shown["management_version"] == VERSION
    assert shown["product_name"] == "RabbitMQ"
    assert (shown["rates_mode"], shown["disable_stats"]) == ("basic", False)
    types = {each["name"] for each in shown["exchange_types"] if each["enabled"]}
    assert types >= {"direct", "fanout", "headers", "topic"}
    ports = {each["port"]: each["protocol"] for each in shown["listeners"]}
    assert (ports[broker.port], ports[api.address.port]) == ("amqp", "http")
    assert shown["contexts"][0]["port"] == str(api.address.port)
    assert "connection_created_details" in shown["churn_rates"]


def test_the_overview_counts_what_there_is(api: Api, vhost: str) -> None:
    before = api.must(api.get("overview"))["object_totals"]
    assert set(before) == {"channels", "connections", "consumers", "exchanges", "queues"}
    numbers = count()

    def is_counted() -> bool:
        """Queues of clients that left before may go between both looks."""
        before = api.must(api.get("overview"))["object_totals"]
        api.must(api.put("queues", vhost, f"orders {next(numbers)}", body={}))
        after = api.must(api.get("overview"))["object_totals"]
        return bool(after["queues"] == before["queues"] + 1)

    eventually(is_counted)


def test_a_user_without_the_tag_monitoring_is_shown_what_is_its_own(
    api: Api, vhost: str, user: Api
) -> None:
    api.must(api.put("queues", vhost, "orders", body={}))
    shown = user.must(user.get("overview"))
    assert {"node", "listeners", "contexts"}.isdisjoint(shown)
    counts = shown["object_totals"]
    assert (counts["queues"], counts["exchanges"], counts["connections"]) == (1, 7, 0)
    assert user.get("nodes").refusal == (401, "not_authorised", "Not monitor user")


def test_a_node_is_shown_with_its_limits_and_its_use(api: Api) -> None:
    name = api.must(api.get("overview"))["node"]
    (listed,) = api.must(api.get("nodes"))
    shown = api.must(api.get("nodes", name))
    assert set(listed) == set(shown)
    assert (shown["name"], shown["type"], shown["running"]) == (name, "disc", True)
    assert (shown["mem_alarm"], shown["disk_free_alarm"], shown["partitions"]) == (False, False, [])
    for limit, used in (("mem_limit", "mem_used"), ("fd_total", "fd_used")):
        assert 0 < shown[used] < shown[limit]
    assert shown["disk_free"] > shown["disk_free_limit"]
    assert shown["uptime"] > 0
    assert int(shown["os_pid"]) > 1
    assert {"PLAIN", "AMQPLAIN"} <= {
        each["name"] for each in shown["auth_mechanisms"] if each["enabled"]
    }


def test_the_memory_of_a_node_is_broken_down(api: Api) -> None:
    name = api.must(api.get("overview"))["node"]
    memory = api.must(api.get("nodes", name, "memory"))["memory"]
    assert memory["total"]["rss"] > 0
    assert memory["strategy"] == "rss"
    relative = api.must(api.get("nodes", name, "memory", "relative"))["memory"]
    assert relative["total"] == 100
    assert api.get("nodes", "nope", "memory").refusal == (404, "Object Not Found", "Not Found")


def test_columns_choose_what_is_shown_of_a_node(api: Api) -> None:
    name = api.must(api.get("overview"))["node"]
    assert api.must(api.get("nodes", name, columns="name")) == {"name": name}
    assert api.must(api.get("overview", columns="node")) == {"node": name}


def test_the_overview_tells_of_the_past_when_it_is_asked(api: Api) -> None:
    query = {"lengths_age": 20, "lengths_incr": 5, "msg_rates_age": 20, "msg_rates_incr": 5}
    deadline = time.monotonic() + SAMPLED_WITHIN_S
    samples: list[dict[str, int]] = []
    while not samples and time.monotonic() < deadline:
        time.sleep(0.2)
        shown = api.must(api.get("overview", **query))
        samples = shown["queue_totals"]["messages_details"]["samples"]
    assert set(samples[0]) == {"sample", "timestamp"}
    assert {"avg", "avg_rate"} <= set(shown["churn_rates"]["queue_created_details"])


def test_a_queue_nobody_uses_says_since_when(api: Api, vhost: str) -> None:
    api.must(api.put("queues", vhost, "idle", body={}))
    deadline = time.monotonic() + SAMPLED_WITHIN_S
    since = None
    while since is None and time.monotonic() < deadline:
        time.sleep(0.2)
        since = api.must(api.get("queues", vhost, "idle")).get("idle_since")
    assert since is not None
    moment = datetime.fromisoformat(since).timestamp()
    assert abs(time.time() - moment) < 2 * SAMPLED_WITHIN_S
