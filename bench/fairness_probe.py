"""Probe of fairness: a client, in a process of its own, that times its confirms.

In a thread of the client that attacks, it would wait for that client's interpreter, too, and not
only for the broker.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from select import select
from typing import Final

import pika  # type: ignore[import-untyped]

from bench.brokers import Broker

PAUSE_S: Final = 0.004
AFTER_S: Final = 1.0
END_S_MAX: Final = 60.0


class Probe:
    """Confirms that another client waited for, in seconds, once `watching` has ended."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.took_s = 0.0

    def quantile(self, share: float) -> float:
        ordered = sorted(self.times)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


@contextmanager
def watching(broker: Broker) -> Iterator[Probe]:
    """Time confirms within `with`, and a little longer: what is slow may be so afterwards."""
    probe = Probe()
    command = [sys.executable, "-m", "bench.fairness_probe", str(broker.port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None, "it is a pipe"
    try:
        process.stdout.readline()  # it is connected
        time.sleep(AFTER_S)
        began = time.monotonic()
        yield probe
        probe.took_s = time.monotonic() - began
        time.sleep(AFTER_S)
    finally:
        said, _ = process.communicate(b"end\n", END_S_MAX)
    probe.times = [took for at, took in json.loads(said) if at + took >= began]


def _timed(port: int) -> Sequence[tuple[float, float]]:
    """Publish until standard input has something; when each began, and how long it took."""
    parameters = pika.ConnectionParameters("127.0.0.1", port, heartbeat=0)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("probe", durable=True, arguments={"x-max-length": 10})
    channel.confirm_delivery()
    durable = pika.BasicProperties(delivery_mode=2)
    print(flush=True)
    times = []
    while not select([sys.stdin], [], [], PAUSE_S)[0]:
        began = time.monotonic()
        channel.basic_publish("", "probe", b"x", durable)
        times.append((began, time.monotonic() - began))
    connection.close()
    return times


if __name__ == "__main__":
    print(json.dumps(_timed(int(sys.argv[1]))))
