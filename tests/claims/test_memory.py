"""Memory: where messages of default and lazy queues are, and how they move under pressure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from acceptance.actions import eventually
from acceptance.control import Control
from acceptance.management_client import Api
from broker_process import BrokerProcess
from claims.pages import Queue, Watermark
from durability.conftest import MakeBroker
from durability.mail import bodies, declare_in, look_once, send
from live_broker import Names

COUNT = 4_000
LARGE_COUNT, LARGE = 200, 100_000
BACKLOG = 120_000
WITHIN_S = 60.0
SOON_S = 20.0
"""Bound for what moves at the first look of the memory's governor, which comes every second."""


@pytest.fixture
def watermark(control: Control) -> Iterator[Watermark]:
    """Sets the memory limit of the broker; it is as it was in the end."""
    watermark = Watermark(control)
    yield watermark
    watermark.reset()


@pytest.fixture
def make_queue(own_broker: BrokerProcess, api: Api, names: Names) -> Callable[..., Queue]:
    def make(role: str, **arguments: Any) -> Queue:
        return Queue(own_broker, api, names(role), arguments)

    return make


MakeQueue = Callable[..., Queue]


def test_c077_four_states(make_queue: MakeQueue, watermark: Watermark, api: Api) -> None:
    """A message is alpha, beta, gamma or delta, in Q1, Q2, Delta, Q3 or Q4: its body leaves memory
    first, then its place in the index."""
    queue = make_queue("c077")
    queue.fill(LARGE_COUNT, LARGE)
    assert queue.tiers() == (LARGE_COUNT, 0, 0)
    used = api.get("nodes").body[0]["mem_used"]
    # Paging begins at half of the limit: a third of the bodies has to leave.
    watermark.set_bytes(2 * (used - LARGE_COUNT * LARGE // 3))
    eventually(lambda: queue.tiers()[1] > 0, SOON_S)
    status = queue.shown["backing_queue_status"]
    parts = [status[part] for part in ("q1", "q2", "q3", "q4")]
    assert sum(parts) + status["delta"][2] == LARGE_COUNT
    watermark.reset()
    queue.expect_all(LARGE_COUNT, LARGE)
    small = make_queue("small")
    small.fill(COUNT, 1_000)
    watermark.set_bytes(1)
    eventually(lambda: small.tiers()[2] > 0, WITHIN_S)
    watermark.reset()
    small.expect_all(COUNT, 1_000)


def test_c078_paging(make_queue: MakeQueue, watermark: Watermark) -> None:
    """Short of memory, persistent and transient messages move to the disk, and come back as they
    are consumed."""
    queues = [make_queue("persistent"), make_queue("transient")]
    for queue, mode in zip(queues, (2, 1), strict=True):
        queue.fill(COUNT, 1_000, delivery_mode=mode)
        assert queue.shown["messages_ram"] == COUNT
    watermark.set_bytes(1)
    for queue in queues:
        eventually(lambda queue=queue: queue.shown["messages_ram"] < COUNT // 10, WITHIN_S)
        assert queue.shown["backing_queue_status"]["delta"][2] > COUNT * 9 // 10
    watermark.reset()
    for queue in queues:
        queue.expect_all(COUNT, 1_000)


def test_c079_unacknowledged(make_queue: MakeQueue, watermark: Watermark) -> None:
    """Unacknowledged messages stay in memory."""
    queue = make_queue("c079")
    queue.fill(LARGE_COUNT, LARGE)
    with queue.holding_all() as client:
        assert queue.shown["messages_unacknowledged_ram"] == LARGE_COUNT
        watermark.set_bytes(1)
        eventually(lambda: queue.shown["messages_unacknowledged_ram"] < LARGE_COUNT // 10, SOON_S)
        watermark.reset()
        client.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
        eventually(lambda: queue.shown["messages_ready"] == LARGE_COUNT, WITHIN_S)
    queue.expect_all(LARGE_COUNT, LARGE)


def test_c080_target(make_queue: MakeQueue, watermark: Watermark) -> None:
    """A queue has a target_ram_count, worked out from its rates now and then."""
    queue = make_queue("c080")
    queue.fill(COUNT, 1_000)
    target = lambda: queue.shown["backing_queue_status"]["target_ram_count"]  # noqa: E731
    assert target() == "infinity"
    watermark.set_bytes(1)
    eventually(lambda: target() == 0, WITHIN_S)
    watermark.reset()
    eventually(lambda: target() == "infinity", WITHIN_S)


def test_c098_in_memory_too(make_queue: MakeQueue) -> None:
    """Persistent messages stay in memory as well, until it is short."""
    queue = make_queue("c098")
    queue.fill(COUNT, 1_000)
    shown = queue.shown
    assert (shown["messages_persistent"], shown["messages_ram"]) == (COUNT, COUNT)


def test_c099_lazy(make_queue: MakeQueue) -> None:
    """Lazy queues write all messages straight to the disk, persistent or not."""
    for role, mode in (("persistent", 2), ("transient", 1)):
        queue = make_queue(role, **{"x-queue-mode": "lazy"})
        queue.fill(COUNT, 1_000, delivery_mode=mode)
        eventually(lambda queue=queue: queue.shown["messages_ram"] == 0, WITHIN_S)
        queue.expect_all(COUNT, 1_000)


def test_c100_lazy_transient(make_broker: MakeBroker) -> None:
    """Transient messages of a lazy queue are lost by a restart, though they were on the disk."""
    broker = make_broker()
    broker.start()
    declare_in(broker, "lazy", **{"x-queue-mode": "lazy"})
    persistent = [b"p%d" % number for number in range(10)]
    for body in persistent:
        send(broker, [body], "lazy")
        send(broker, [b"t" + body], "lazy", delivery_mode=1)
    broker.restart()
    assert bodies(look_once(broker, "lazy")) == persistent


def test_c105_default_to_lazy(make_queue: MakeQueue, control: Control) -> None:
    """A queue that becomes lazy while it runs pages its messages out."""
    queue = make_queue("c105")
    queue.fill(COUNT, 1_000)
    assert queue.shown["messages_ram"] == COUNT
    queue.set_mode(control, "lazy")
    eventually(lambda: queue.shown["messages_ram"] == 0, WITHIN_S)
    queue.expect_all(COUNT, 1_000)
    queue.clear_mode(control)


def test_c106_lazy_to_default(make_queue: MakeQueue, control: Control) -> None:
    """A lazy queue that becomes a default one loads its messages in batches."""
    queue = make_queue("c106")
    queue.set_mode(control, "lazy")
    queue.fill(COUNT, 1_000)
    eventually(lambda: queue.shown["messages_ram"] == 0, WITHIN_S)
    try:
        queue.set_mode(control, "default")
        eventually(lambda: queue.shown["messages_ram"] == COUNT, SOON_S)
    finally:
        queue.clear_mode(control)
    queue.expect_all(COUNT, 1_000)


def await_in_memory(broker: BrokerProcess, count: int) -> None:
    eventually(lambda: broker.ask("/api/queues/%2F/q")["messages_ram"] == count, WITHIN_S)


def test_c107_memory_of_lazy_queues(make_broker: MakeBroker) -> None:
    """Lazy queues take little memory."""
    grown = {}
    for mode in ("default", "lazy"):
        broker = make_broker()
        broker.start()
        declare_in(broker, "q", **{"x-queue-mode": mode})
        before = broker.resident_bytes()
        Queue.flood(broker, "q", BACKLOG, 1_000)
        await_in_memory(broker, 0 if mode == "lazy" else BACKLOG)
        grown[mode] = broker.resident_bytes() - before
        broker.kill()
    assert grown["lazy"] < grown["default"] / 2, grown


def test_c108_speed_of_lazy_queues(make_broker: MakeBroker) -> None:
    """Under pressure a lazy queue takes messages in faster than a default one."""
    # How much faster, only a quiet machine can tell (bench/backlog.py); here, that lazy costs no
    # more than others, by the processor time of the cheapest of several runs.
    least: dict[str, float] = {}
    for mode in ("default", "lazy") * 3:
        broker = make_broker("vm_memory_high_watermark.absolute = 110MiB\n")
        broker.start()
        declare_in(broker, "q", **{"x-queue-mode": mode})
        before_s = broker.cpu_s()
        Queue.flood(broker, "q", BACKLOG // 4, 1_000)
        used_s = broker.cpu_s() - before_s
        least[mode] = min(used_s, least.get(mode, used_s))
        broker.kill()
    assert least["lazy"] < 1.5 * least["default"], least
