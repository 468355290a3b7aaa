"""The things there are many of in `bench/many.py`, and how they are made."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from pamqp.commands import Exchange, Queue

from bench.load import ROOT
from bench.making import make
from bench.many_subjects import Subject

BINDINGS_PER_QUEUE: Final = 5
QUEUES_OF_CROWD_MAX: Final = 100
"""Of the clients of the dimension "connections", so that queues are no part of what they cost."""
HEARTBEAT_S: Final = 60
EXCHANGE: Final = "many"


class Crowd:
    """Clients in a process of their own, with a connection, a channel and a consumer each."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def news(self) -> dict[str, float]:
        """Wait until all clients have been answered, and return what that took."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the clients could not connect")
        found: dict[str, float] = json.loads(line)
        return found


@contextmanager
def crowd(ports: Sequence[int], queues: Sequence[str]) -> Iterator[Crowd]:
    """As many clients as queues are named, connected to all nodes in turn."""
    command = [sys.executable, "-m", "bench.crowd", "--heartbeat", str(HEARTBEAT_S)]
    process = subprocess.Popen(
        [*command, "--ports", ",".join(map(str, ports))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    try:
        assert process.stdin is not None
        process.stdin.write("\n".join(queues))
        process.stdin.close()
        yield Crowd(process)
    finally:
        process.kill()
        process.wait()


def queue_names(count: int, mirrored: int = 0) -> list[str]:
    return [f"mirrored-{n}" if n < mirrored else f"many-{n}" for n in range(count)]


def make_queues(subject: Subject, names: Sequence[str]) -> float:
    return make(subject.ports, [Queue.Declare(queue=name, durable=True) for name in names])


def make_bindings(subject: Subject, names: Sequence[str], count: int) -> float:
    """Bind the queues in turn, each time with another key."""
    exchange = Exchange.Declare(exchange=EXCHANGE, exchange_type="topic", durable=True)
    make(subject.ports[:1], [exchange])
    binds = [
        Queue.Bind(queue=names[n % len(names)], exchange=EXCHANGE, routing_key=f"of.{n}.many")
        for n in range(count)
    ]
    return make(subject.ports, binds)


def mirror(subject: Subject) -> None:
    subject.operator().set_policy("ha", "^mirrored-", {"ha-mode": "all"})


@dataclass(frozen=True)
class Growing:
    """One dimension: `prepare` comes before memory is looked at, `make` is what is measured.

    What has to be there until the end goes to the stack.
    """

    name: str
    make: Callable[[Subject, int, ExitStack], float]
    prepare: Callable[[Subject, int], object] = lambda _subject, _count: None
    sizes: Sequence[int] = (1, 100, 10_000)
    is_for_one_node: bool = True

    def counts(self, share: float) -> list[int]:
        return list(dict.fromkeys(max(round(size * share), 1) for size in self.sizes))


def _connect(subject: Subject, count: int, stack: ExitStack) -> float:
    names = _names_for_crowd(count)
    queues = [names[n % len(names)] for n in range(count)]
    return stack.enter_context(crowd(subject.ports, queues)).news()["seconds"]


def _names_for_crowd(count: int) -> list[str]:
    return queue_names(min(count, QUEUES_OF_CROWD_MAX))


def _names_to_bind(count: int) -> list[str]:
    return queue_names(max(count // BINDINGS_PER_QUEUE, 1))


GROWING: Final = (
    Growing(
        "connections with a consumer",
        _connect,
        lambda subject, count: make_queues(subject, _names_for_crowd(count)),
    ),
    Growing("durable queues", lambda subject, count, _: make_queues(subject, queue_names(count))),
    Growing(
        "bindings",
        lambda subject, count, _: make_bindings(subject, _names_to_bind(count), count),
        lambda subject, count: make_queues(subject, _names_to_bind(count)),
    ),
    Growing(
        "mirrored queues",
        lambda subject, count, _: make_queues(subject, queue_names(count, count)),
        lambda subject, _: mirror(subject),
        sizes=(1, 100, 2_000),
        is_for_one_node=False,
    ),
)
