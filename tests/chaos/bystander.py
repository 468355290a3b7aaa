"""A well-behaved client in a process of its own, which must not notice what others do.

It sends a message to itself every few milliseconds over a connection of its own and measures how
long it takes; a process, because a thread would share its interpreter with the troublemaker and
measure that. Run as a program: `bystander.py HOST PORT [PID OF THE BROKER]`; prints a line when it
is under way and, for every line on its standard input, the round trips since the last one as JSON.

Time on the clock says little on a machine that is small and busy with other things. So a round trip
has a cost too: what the broker has used of its processor meanwhile, which it spent on others. It is
the cost that must be small; on the clock a round trip must only come to an end.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from broker_process import Address, cpu_s_of

PAUSE_S: Final = 0.005
# What the broker may spend on others meanwhile in half of the round trips, in nine in ten, and in
# all of them; one storm was seen at 1 ms for half of them and 190 at worst.
TYPICAL_COST_MS_MAX: Final = 25.0
SLOW_COST_MS_MAX: Final = 200.0
WORST_COST_MS_MAX: Final = 3000.0
# On the clock.
TYPICAL_MS_MAX: Final = 1000.0
WORST_MS_MAX: Final = 20_000.0
# Fewer round trips than this, in a test that is over at once, say nothing about what is typical.
SAMPLES_MIN: Final = 20


class RoundTrip(NamedTuple):
    took_ms: float
    cost_ms: float


class Bystander:
    def __init__(self, address: Address, broker_pid: int | None) -> None:
        tests = Path(__file__).parent.parent
        arguments = [address.host, str(address.port), *([str(broker_pid)] if broker_pid else [])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "chaos.bystander", *arguments],
            cwd=tests, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "under way\n"

    def report(self) -> list[RoundTrip]:
        """Since the last report; at least one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("report\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the bystander lost its connection"
        return [RoundTrip(*each) for each in json.loads(line)]

    def stop(self) -> None:
        self._process.communicate(timeout=60)


@contextmanager
def undisturbed(bystander: Bystander) -> Iterator[None]:
    """Whatever the block does to the broker, a client of good manners must not feel it."""
    bystander.report()
    yield
    round_trips = bystander.report()
    times = sorted(trip.took_ms for trip in round_trips)
    costs = sorted(trip.cost_ms for trip in round_trips)
    half, most = (int(len(times) * share) for share in (0.5, 0.9))
    summary = f"{times[half]=:.1f} {times[-1]=:.1f} {costs[half]=:.1f} {costs[-1]=:.1f}"
    assert times[-1] < WORST_MS_MAX, summary
    assert costs[-1] < WORST_COST_MS_MAX, summary
    if len(times) >= SAMPLES_MIN:
        assert times[half] < TYPICAL_MS_MAX, summary
        assert costs[half] < TYPICAL_COST_MS_MAX, summary
        assert costs[most] < SLOW_COST_MS_MAX, summary


def measure(address: Address, broker_pid: int | None) -> None:
    from acceptance.raw_client import RawClient

    round_trips = []
    with RawClient(address).open() as client:
        queue = client.call(1, "queue.declare", exclusive=True).queue
        client.call(1, "basic.consume", queue=queue, no_ack=True)
        print("under way", flush=True)
        while True:
            began_s, began_cpu_s = time.monotonic(), cpu_s_of(broker_pid)
            client.publish(1, b"still here?", routing_key=queue)
            client.expect_content(1, "basic.deliver")
            took_s, cost_s = time.monotonic() - began_s, cpu_s_of(broker_pid) - began_cpu_s
            round_trips.append((took_s * 1000, cost_s * 1000))
            if select.select([sys.stdin], [], [], PAUSE_S)[0]:
                if not sys.stdin.readline():
                    return
                print(json.dumps(round_trips), flush=True)
                round_trips = []


if __name__ == "__main__":
    _, host, port, *pid = sys.argv
    measure(Address(host, int(port)), int(pid[0]) if pid else None)
