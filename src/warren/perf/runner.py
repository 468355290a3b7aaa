"""Runs one load from beginning to end."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from warren.client.errors import ConnectionLost
from warren.perf import topology
from warren.perf.consumer import Consumer
from warren.perf.load import Load, Worker
from warren.perf.options import Options
from warren.perf.process import ProcessMeter
from warren.perf.producer import Producer

TICK_SECONDS: Final = 0.01
SAMPLE_SECONDS: Final = 0.1
QUIET_SECONDS: Final = 0.1
STOP_SECONDS: Final = 5.0


@dataclass
class Run:
    """A load with its workers; what the report and the progress line are made from."""

    load: Load
    producers: list[Producer]
    consumers: list[Consumer]
    meter: ProcessMeter
    started: float = field(default_factory=time.monotonic)
    consumed_when_publish_ended: int = 0
    cpu_seconds: float = 0.0
    broker_cpu_seconds: float = 0.0
    broker_rss_kb: int = 0
    other_busy_cores: float = 0.0
    has_timed_out: bool = False

    @property
    def workers(self) -> list[Worker]:
        return [*self.consumers, *self.producers]

    @property
    def published(self) -> int:
        return sum(producer.published for producer in self.producers)

    @property
    def consumed(self) -> int:
        return sum(consumer.tally.consumed for consumer in self.consumers)

    @property
    def fresh(self) -> int:
        return sum(consumer.tally.fresh for consumer in self.consumers)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started


def prepare(options: Options) -> Run:
    load = Load(options)
    wanted = 0 if options.drain else options.producers
    each, rest = divmod(options.count, max(wanted, 1))
    quotas = [each + (n < rest) if options.count else None for n in range(wanted)]
    return Run(
        load=load,
        producers=[Producer(n, load, quota) for n, quota in enumerate(quotas)],
        consumers=[
            Consumer(n, load) for n in range(0 if options.publish_only else options.consumers)
        ],
        meter=ProcessMeter([int(pid) for pid in options.broker_pid.split(",") if pid]),
    )


async def run_load(options: Options, on_tick: Callable[[Run], None]) -> Run:
    """Raises ConnectionLost when not even the declarations succeed."""
    if options.declare:
        await topology.declare(options)
    run = prepare(options)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, run.load.stop_publishing)
    own_cpu = time.process_time()
    tasks = [asyncio.create_task(worker.run()) for worker in run.workers]
    await _until_ready(run)
    await _until_over(run, on_tick)
    run.broker_cpu_seconds = run.meter.cpu_seconds()
    run.broker_rss_kb = run.meter.sample()
    await _stop(run, tasks)
    run.cpu_seconds = time.process_time() - own_cpu
    run.other_busy_cores = run.meter.other_busy_cores()
    if options.delete_after:
        await _delete(run)
    return run


async def _until_ready(run: Run) -> None:
    try:
        async with asyncio.timeout(run.load.options.max_seconds):
            for worker in run.workers:
                await worker.ready.wait()
    except TimeoutError:
        run.load.report_error("max-seconds during setup")
        run.load.has_failed = True
    run.load.started_ns = time.monotonic_ns()
    run.load.go.set()


async def _until_over(run: Run, on_tick: Callable[[Run], None]) -> None:
    options, load = run.load.options, run.load
    began = last_change = last_sample = time.monotonic()
    consumed, has_ended = -1, False
    while not (load.has_failed and not options.reconnect):
        await asyncio.sleep(TICK_SECONDS)
        now = time.monotonic()
        if now - last_sample > SAMPLE_SECONDS:
            last_sample = now
            run.meter.sample()
            on_tick(run)
        if run.elapsed > options.max_seconds:
            load.report_error("max-seconds reached")
            run.has_timed_out = True
            return
        if options.seconds and now - began >= options.seconds:
            load.stop_publishing()
        are_done = all(producer.is_done for producer in run.producers)
        if run.consumed != consumed or not are_done:
            consumed, last_change = run.consumed, now
        elif now - last_change > QUIET_SECONDS:
            _acknowledge_rest(run)
        if are_done and not has_ended:
            has_ended, run.consumed_when_publish_ended = True, run.consumed
            if load.backlog is not None:
                load.backlog.release()
        if are_done and _is_finished(run, now - began, now - last_change):
            return


def _is_finished(run: Run, seconds: float, quiet_seconds: float) -> bool:
    """Once producers are done: nothing is left to come, or nothing comes."""
    options = run.load.options
    if not run.consumers or quiet_seconds >= options.idle:
        return True
    if options.drain:
        enough = bool(options.expect) and run.fresh >= options.expect
        return enough or 0 < options.time <= seconds
    return run.fresh >= run.published * options.copies and not options.reconnect


def _acknowledge_rest(run: Run) -> None:
    for consumer in run.consumers:
        consumer.acknowledge_rest()


async def _stop(run: Run, tasks: list[asyncio.Task[None]]) -> None:
    run.load.stop_publishing()
    run.load.over.set()
    for worker in run.workers:
        worker.wake()
    if run.load.backlog is not None:
        run.load.backlog.release()
    _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS) if tasks else (None, set())
    for task in late:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result


async def _delete(run: Run) -> None:
    try:
        await topology.delete(run.load.options)
    except ConnectionLost as lost:
        run.load.report_error(f"delete: {lost}", lost.code)
