"""A well-behaved client in a process of its own, which must not notice what others do.

It sends a message to itself every few milliseconds over a connection of its own and measures how
long it takes; a process, because a thread would share its interpreter with the troublemaker and
measure that. Run as a program: `bystander.py HOST PORT`; prints a line when it is under way and,
for every line on its standard input, the latencies since the last one as JSON.
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
from typing import Final

from broker_process import Address

PAUSE_S: Final = 0.005
# Half of the round trips, nine in ten, and all of them. Generous, since a test machine is small
# and may be busy with other things; one storm was seen at 1 ms for half of them and 190 at worst.
TYPICAL_MS_MAX: Final = 25.0
SLOW_MS_MAX: Final = 200.0
WORST_MS_MAX: Final = 3000.0
# Fewer round trips than this, in a test that is over at once, say nothing about what is typical.
SAMPLES_MIN: Final = 20


class Bystander:
    def __init__(self, address: Address) -> None:
        tests = Path(__file__).parent.parent
        self._process = subprocess.Popen(
            [sys.executable, "-m", "chaos.bystander", address.host, str(address.port)],
            cwd=tests, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "under way\n"

    def report(self) -> list[float]:
        """Latencies in milliseconds since the last report, sorted; at least one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("report\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the bystander lost its connection"
        latencies: list[float] = json.loads(line)
        return sorted(latencies)

    def stop(self) -> None:
        self._process.communicate(timeout=10)


@contextmanager
def undisturbed(bystander: Bystander) -> Iterator[None]:
    """Whatever the block does to the broker, a client of good manners must not feel it."""
    bystander.report()
    yield
    latencies = bystander.report()
    typical, slow = (latencies[int(len(latencies) * share)] for share in (0.5, 0.9))
    summary = f"{len(latencies)} round trips: {typical=:.1f} {slow=:.1f} worst={latencies[-1]:.1f}"
    assert latencies[-1] < WORST_MS_MAX, summary
    if len(latencies) >= SAMPLES_MIN:
        assert typical < TYPICAL_MS_MAX, summary
        assert slow < SLOW_MS_MAX, summary


def measure(address: Address) -> None:
    from acceptance.raw_client import RawClient

    latencies = []
    with RawClient(address).open() as client:
        queue = client.call(1, "queue.declare", exclusive=True).queue
        client.call(1, "basic.consume", queue=queue, no_ack=True)
        print("under way", flush=True)
        while True:
            began = time.monotonic()
            client.publish(1, b"still here?", routing_key=queue)
            client.expect_content(1, "basic.deliver")
            latencies.append((time.monotonic() - began) * 1000)
            if select.select([sys.stdin], [], [], PAUSE_S)[0]:
                if not sys.stdin.readline():
                    return
                print(json.dumps(latencies), flush=True)
                latencies = []


if __name__ == "__main__":
    measure(Address(sys.argv[1], int(sys.argv[2])))
