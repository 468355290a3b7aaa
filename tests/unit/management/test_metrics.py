"""Metrics of a node in this process: how they are written, and how long that takes."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from warren._pure import PURE
from warren.config.settings import Config
from warren.config.values import Endpoint
from warren.management.application import build_application
from warren.management.metrics.exposition import labels_of
from warren.management.metrics.scrape import Scrape
from warren.model.records import QueueRecord
from warren.server.node import Node
from warren.wire.codec import Message, PropertyBlock
from warren.wire.route_key import make_route_key

QUEUES: Final = 5_000
# Plain sources take their time; what they must not do is take it in one piece.
PIECE_S_MAX: Final = 0.050 if PURE else 0.010


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    config = Config(
        name="warren@test",
        data_dir=tmp_path / "data",
        tcp_listeners=(Endpoint("127.0.0.1", 0),),
        http_port=0,
        prometheus_port=0,
    )
    node = Node(config, make_application=build_application)
    await node.start()
    yield node
    await node.stop()


async def declare(node: Node, count: int) -> None:
    """So many queues with a message each."""
    vhost = node.broker.vhosts["/"]
    records = [QueueRecord("/", f"q{number}", durable=False) for number in range(count)]
    await asyncio.gather(*(vhost.declare_queue(record, False, "test") for record in records))
    for queue in vhost.queues_here():
        key = make_route_key("", queue.record.name)
        queue.publish(Message(key, PropertyBlock(b"\0\0"), b"body"), None, 0)


async def test_no_piece_of_a_scrape_or_a_sample_holds_up_the_loop(node: Node) -> None:
    """Measured in time of the processor, which others cannot take away; but they can spoil its
    caches, so the best of a few times counts."""
    await declare(node, QUEUES)
    scrape = Scrape(node)
    for pieces_of in (scrape.aggregated, scrape.per_object, node.statistics.sampling):
        assert min(longest_piece_s(pieces_of()) for _ in range(3)) < PIECE_S_MAX


def longest_piece_s(pieces: Iterable[object]) -> float:
    longest_s = 0.0
    began_s = time.thread_time()
    for _ in pieces:
        ended_s = time.thread_time()
        longest_s, began_s = max(longest_s, ended_s - began_s), ended_s
    return longest_s


async def test_sums_over_many_queues_are_right(node: Node) -> None:
    await declare(node, 2_500)
    text = "".join(Scrape(node).aggregated())
    values = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.labels
    }
    assert values["rabbitmq_queues"] == 2_500
    assert values["rabbitmq_queue_messages_ready"] == 2_500
    assert values["rabbitmq_queue_messages_ready_bytes"] == 4 * 2_500


async def test_prometheus_may_have_a_port_that_shows_nothing_else(node: Node) -> None:
    endpoint = node.metrics_endpoint
    assert endpoint is not None

    def status(path: str) -> int:
        connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    statuses = {
        path: await asyncio.to_thread(status, path)
        for path in ("/metrics", "/metrics/per-object", "/api/overview", "/metricsx", "/")
    }
    assert statuses == {
        "/metrics": 200,
        "/metrics/per-object": 200,
        "/api/overview": 404,
        "/metricsx": 404,
        "/": 404,
    }


def test_labels_may_have_quotes_backslashes_and_line_ends() -> None:
    odd = 'a "b"\\\n{c},d=ü'
    text = f"m{{{labels_of({'name': odd})}}} 1\n"
    [family] = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"name": odd}
