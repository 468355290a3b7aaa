"""What Prometheus scrapes, read by the parser of its own client."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator
from math import inf
from typing import Final
from urllib.parse import urlencode

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from acceptance.actions import eventually
from acceptance.management_client import Api
from broker_process import Address

Scrape = Callable[..., "Scraped"]

# Of section 15, what this broker has; the rest is of Erlang, of Mnesia, or of how RabbitMQ reads
# and writes files.
NODE: Final = """
    connections channels consumers queues
    connections_opened_total connections_closed_total channels_opened_total channels_closed_total
    queues_declared_total queues_created_total queues_deleted_total
    process_open_fds process_max_fds process_open_tcp_sockets process_max_tcp_sockets
    process_resident_memory_bytes resident_memory_limit_bytes disk_space_available_bytes
    disk_space_available_limit_bytes erlang_processes_used erlang_processes_limit
    erlang_gc_runs_total erlang_scheduler_context_switches_total erlang_uptime_seconds
    io_write_ops_total io_write_bytes_total io_sync_ops_total msg_store_read_total
    msg_store_write_total queue_index_read_ops_total queue_index_write_ops_total
    queue_index_journal_write_ops_total queue_disk_reads_total queue_disk_writes_total
    auth_attempts_total auth_attempts_succeeded_total auth_attempts_failed_total
    alarms_memory_used_watermark alarms_free_disk_space_watermark alarms_file_descriptor_limit
    mirrored_queues_led queue_mirrors queue_mirrors_unsynchronised queue_mirror_promotions_total
    queue_mirror_unsafe_promotions_total queue_mirror_messages_lost_total
    build_info identity_info
    global_messages_received_total global_messages_received_confirm_total
    global_messages_routed_total global_messages_unroutable_dropped_total
    global_messages_unroutable_returned_total global_messages_confirmed_total
    global_messages_delivered_total global_messages_delivered_consume_manual_ack_total
    global_messages_delivered_consume_auto_ack_total
    global_messages_delivered_get_manual_ack_total global_messages_delivered_get_auto_ack_total
    global_messages_get_empty_total global_messages_redelivered_total
    global_messages_acknowledged_total global_publishers global_consumers
"""
QUEUE: Final = """
    queue_messages queue_messages_ready queue_messages_unacked queue_consumers
    queue_consumer_utilisation queue_consumer_capacity queue_process_memory_bytes
    queue_messages_ram queue_messages_ram_bytes queue_messages_ready_ram
    queue_messages_unacked_ram queue_messages_persistent queue_messages_persistent_bytes
    queue_messages_bytes queue_messages_ready_bytes queue_messages_unacked_bytes
    queue_messages_paged_out queue_messages_paged_out_bytes queue_messages_published_total
"""
CHANNEL: Final = """
    channel_consumers channel_messages_unacked channel_messages_unconfirmed
    channel_messages_uncommitted channel_acks_uncommitted consumer_prefetch channel_prefetch
    channel_messages_published_total channel_messages_confirmed_total
    channel_messages_unroutable_returned_total channel_messages_unroutable_dropped_total
    channel_get_total channel_get_ack_total channel_get_empty_total
    channel_messages_delivered_total channel_messages_delivered_ack_total
    channel_messages_redelivered_total channel_messages_acked_total
"""
CONNECTION: Final = """
    connection_incoming_bytes_total connection_outgoing_bytes_total
    connection_incoming_packets_total connection_outgoing_packets_total
    connection_pending_packets connection_channels
"""


class Scraped:
    """The samples of one answer."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples: list[Sample] = [
            sample for family in self.families.values() for sample in family.samples
        ]

    def named(self, name: str) -> list[Sample]:
        return [sample for sample in self.samples if sample.name == f"rabbitmq_{name}"]

    def value(self, name: str, **labels: str) -> float:
        found = [
            sample.value for sample in self.named(name) if labels.items() <= sample.labels.items()
        ]
        assert len(found) == 1, f"{name} {labels}: {found}"
        return found[0]

    def labels(self, name: str) -> set[str]:
        return {label for sample in self.named(name) for label in sample.labels}

    @property
    def names(self) -> set[str]:
        return {sample.name.removeprefix("rabbitmq_") for sample in self.samples}


def ask(address: Address, path: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(address.host, address.port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"] or "", answer.read().decode()
    finally:
        connection.close()


@pytest.fixture
def scrape(api: Api) -> Scrape:
    def scrape(path: str = "", query: list[tuple[str, str]] | None = None) -> Scraped:
        asked = f"/metrics{path}" + (f"?{urlencode(query)}" if query else "")
        status, content_type, text = ask(api.address, asked)
        assert status == 200
        assert content_type.startswith("text/plain; version=0.0.4")
        return Scraped(text)

    return scrape


@pytest.fixture
def channel(broker: Address, vhost: str) -> Iterator[BlockingChannel]:
    where = pika.ConnectionParameters(broker.host, broker.port, vhost, heartbeat=0)
    with BlockingConnection(where) as connection:
        yield connection.channel()


def words(text: str) -> set[str]:
    return set(text.split())


def test_t173_every_name_is_there_in_sums_without_labels(
    channel: BlockingChannel, scrape: Scrape
) -> None:
    channel.queue_declare("q")
    scraped = scrape()
    expected = words(NODE) | words(QUEUE) | words(CHANNEL) | words(CONNECTION)
    assert expected - scraped.names == set()
    for name in words(QUEUE) | words(CHANNEL) | words(CONNECTION):
        assert scraped.labels(name) == set(), name
        assert len(scraped.named(name)) == 1, name


def test_t173_every_object_has_its_labels(channel: BlockingChannel, scrape: Scrape) -> None:
    channel.queue_declare("q")
    channel.basic_publish("amq.fanout", "", b"lost")
    channel.queue_declare("q")  # answered when that is done
    scraped = scrape("/per-object")
    for names, labels in (
        (QUEUE, {"vhost", "queue"}),
        (CHANNEL, {"channel", "vhost"}),
        (CONNECTION, {"connection"}),
        ("exchange_messages_published_total", {"vhost", "exchange"}),
    ):
        for name in words(names):
            assert scraped.labels(name) == labels, name
    assert words(NODE) - scraped.names == set()


def test_a_scrape_names_each_sample_once(channel: BlockingChannel, scrape: Scrape) -> None:
    channel.queue_declare("q")
    for path in ("", "/per-object"):
        scraped = scrape(path)
        keys = [(s.name, tuple(sorted(s.labels.items()))) for s in scraped.samples]
        assert len(keys) == len(set(keys))


def test_counters_say_that_they_are_and_end_in_total(
    channel: BlockingChannel, scrape: Scrape
) -> None:
    for family in scrape().families.values():
        totals = [s for s in family.samples if s.name.endswith("_total")]
        assert (family.type == "counter") == bool(totals), family


def test_messages_of_a_queue_are_told_where_they_are(
    channel: BlockingChannel, scrape: Scrape, vhost: str
) -> None:
    channel.queue_declare("q", durable=True)
    persistent = pika.BasicProperties(delivery_mode=2, timestamp=1_700_000_000)
    for _ in range(3):
        channel.basic_publish("", "q", b"12345", persistent)
    channel.basic_get("q")
    channel.queue_declare("q", passive=True)
    scraped = scrape("/per-object")

    def of_queue(name: str) -> float:
        return scraped.value(name, vhost=vhost, queue="q")

    assert of_queue("queue_messages_ready") == 2
    assert of_queue("queue_messages_unacked") == 1
    assert of_queue("queue_messages") == 3
    assert of_queue("queue_messages_persistent") == 3
    assert of_queue("queue_messages_bytes") == 15
    assert of_queue("queue_messages_unacked_bytes") == 5
    assert of_queue("queue_head_message_timestamp") == 1_700_000_000
    assert of_queue("queue_messages_published_total") == 3
    assert of_queue("queue_get_ack_total") == 1


def test_sums_keep_what_was_counted_by_what_is_gone(
    broker: Address, vhost: str, scrape: Scrape
) -> None:
    where = pika.ConnectionParameters(broker.host, broker.port, vhost, heartbeat=0)
    expected = {
        "channel_messages_published_total": 5,
        "queue_messages_published_total": 5,
        "channel_get_total": 1,
        "global_messages_received_total": 5,
        "global_messages_routed_total": 5,
        "connections_opened_total": 1,
        "channels_opened_total": 1,
        "channels_closed_total": 1,
        "queues_declared_total": 1,
        "queues_created_total": 1,
        "queues_deleted_total": 1,
    }

    def are_kept() -> bool:
        """What clients of other tests left may go, and be counted, in between."""
        before = scrape()
        with BlockingConnection(where) as connection:
            channel = connection.channel()
            channel.queue_declare("q")
            channel.exchange_declare("x", "fanout")
            channel.queue_bind("q", "x")
            for _ in range(5):
                channel.basic_publish("x", "", b"message")
            channel.basic_get("q", auto_ack=True)
            channel.queue_delete("q")
            channel.exchange_delete("x")
        after = scrape()
        for name in ("connection_incoming_bytes_total", "connection_outgoing_bytes_total"):
            assert after.value(name) > before.value(name)
        return {name: after.value(name) - before.value(name) for name in expected} == expected

    eventually(are_kept)


def test_log_ins_are_counted_by_how_they_ended(api: Api, scrape: Scrape) -> None:
    def attempts(outcome: str) -> float:
        return scrape().value(f"auth_attempts_{outcome}_total", protocol="http")

    api.get("whoami")
    succeeded, failed = attempts("succeeded"), 0.0
    api.as_user("guest", "wrong").get("whoami")
    failed = attempts("failed")
    api.get("whoami")
    api.as_user("guest", "wrong").get("whoami")
    assert attempts("succeeded") == succeeded + 1
    assert attempts("failed") == failed + 1


def test_only_what_is_asked_for_is_told_in_detail(
    channel: BlockingChannel, scrape: Scrape, vhost: str
) -> None:
    channel.queue_declare("q")
    query = [("family", "queue_coarse_metrics"), ("family", "nobody_knows"), ("vhost", vhost)]
    scraped = scrape("/detailed", query)
    assert scraped.names == {
        "detailed_queue_messages_ready", "detailed_queue_messages_unacked",
        "detailed_queue_messages", "build_info", "identity_info",
    }  # fmt: skip
    assert {s.labels["vhost"] for s in scraped.named("detailed_queue_messages")} == {vhost}
    assert scraped.value("detailed_queue_messages", queue="q") == 0


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("queue_coarse_metrics", "detailed_queue_messages_ready"),
        ("queue_metrics", "detailed_queue_consumer_capacity"),
        ("queue_consumer_count", "detailed_queue_consumers"),
        ("queue_delivery_metrics", "detailed_queue_messages_delivered_ack_total"),
        ("channel_metrics", "detailed_channel_consumers"),
        ("channel_exchange_metrics", "detailed_channel_messages_published_total"),
        ("channel_queue_metrics", "detailed_channel_get_ack_total"),
        ("channel_queue_exchange_metrics", "detailed_queue_messages_published_total"),
        ("connection_coarse_metrics", "detailed_connection_incoming_bytes_total"),
        ("connection_metrics", "detailed_connection_channels"),
        ("connection_churn_metrics", "detailed_connections_opened_total"),
        ("node_coarse_metrics", "detailed_process_open_fds"),
        ("node_metrics", "detailed_resident_memory_limit_bytes"),
        ("node_persister_metrics", "detailed_msg_store_write_total"),
        ("auth_attempt_metrics", "detailed_auth_attempts_total"),
        ("vhost_status", "cluster_vhost_status"),
        ("exchange_names", "cluster_exchange_name"),
        ("exchange_bindings", "cluster_exchange_bindings"),
        ("exchange_metrics", "detailed_exchange_messages_published_total"),
        ("queue_head_metrics", "detailed_queue_head_message_age_seconds"),
        ("queue_waiting_metrics", "detailed_queue_time_in_queue_seconds_count"),
    ],
)
def test_each_family_can_be_asked_for(
    channel: BlockingChannel, scrape: Scrape, vhost: str, family: str, name: str
) -> None:
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"message")
    channel.queue_declare("q", passive=True)
    scraped = scrape("/detailed", [("family", family), ("vhost", vhost)])
    assert scraped.named(name)


def test_families_that_overlap_do_not_repeat_themselves(
    channel: BlockingChannel, scrape: Scrape, vhost: str
) -> None:
    channel.queue_declare("q")
    query = [("family", "queue_metrics"), ("family", "queue_consumer_count"), ("vhost", vhost)]
    assert len(scrape("/detailed", query).named("detailed_queue_consumers")) == 1


def test_names_of_every_kind_can_be_labels(channel: BlockingChannel, scrape: Scrape) -> None:
    odd = 'a "queue"\\with every {kind} of, ünlikely=names'
    channel.queue_declare(odd)
    assert scrape("/per-object").value("queue_messages", queue=odd) == 0


def test_the_age_of_the_head_is_told(channel: BlockingChannel, scrape: Scrape, vhost: str) -> None:
    channel.queue_declare("waiting")
    channel.basic_publish("", "waiting", b"message")
    channel.queue_declare("waiting", passive=True)  # answered when it is there
    time.sleep(1.2)
    age_s = scrape("/per-object").value("queue_head_message_age_seconds", queue="waiting")
    assert 1.0 <= age_s <= 60.0
    assert scrape().value("queue_head_message_age_seconds") >= age_s


def test_waiting_times_are_a_histogram_of_all_deliveries(
    channel: BlockingChannel, scrape: Scrape, vhost: str
) -> None:
    channel.queue_declare("waiting")
    for _ in range(4):
        channel.basic_publish("", "waiting", b"message")
    channel.queue_declare("waiting", passive=True)  # answered when they are there
    time.sleep(0.7)
    for _ in range(3):
        channel.basic_get("waiting", auto_ack=True)
    channel.basic_consume("waiting", lambda *_: None, auto_ack=True)
    channel.basic_publish("", "waiting", b"handed over at once")
    channel.queue_declare("waiting", passive=True)
    query = [("family", "queue_waiting_metrics"), ("vhost", vhost)]
    scraped = scrape("/detailed", query)
    name = "detailed_queue_time_in_queue_seconds"
    buckets = {float(s.labels["le"]): s.value for s in scraped.named(f"{name}_bucket")}
    assert list(buckets.values()) == sorted(buckets.values())
    assert buckets[0.001] == 1, "the one that did not wait"
    assert buckets[0.5] == 1
    assert buckets[inf] == 5
    assert scraped.value(f"{name}_count") == 5
    assert 4 * 0.6 <= scraped.value(f"{name}_sum") <= 4 * 60
    assert scrape().named("queue_time_in_queue_seconds_count")


def test_nobody_has_to_log_in(api: Api) -> None:
    assert ask(api.address, "/metrics")[0] == 200
