"""Bytes under way to something slower than we are, and a bound on them.

Publishers bring messages as fast as a network is; a disk takes them as fast as a disk is. What lies
between waits in memory. This object counts those bytes, and while there are too many, the
connections that bring more are not read: TCP then slows the publisher down.

The guarantee. Let `max` be the bound, R what one read of a socket brings, M the largest message
and C the number of connections that publish to this credit. Then

    bytes under way  <=  max + R + M + C x M

RabbitMQ counts messages: every pair of processes on the way has a credit of 400, the receiver
grants 200 more when it has worked through as many, and one that is itself held up grants nothing,
so the pressure reaches the reader in the end. That bounds the number of messages, and 400 of
100 MB each do not fit anywhere. We are one process: between the socket and the disk there is
nothing to negotiate, so one counter takes the place of all the pairs, and it counts bytes.

Why `charge` never refuses: by the time it is called the message has been routed, and may be in two
queues of three already. Nor can it wait, for nothing on the path of a message does. So a charge
always succeeds, and whoever has overdrawn stops *afterwards*, before its next message:

    connection            brake                  credit               commit thread
        |  publish ─────────────────────────────► charge: no room left      |
        |                   | ◄── on_exhausted ────|                        |
        |  next read: is the brake on? yes: go in steps                     |
        |  publish ─────────────────────────────► charge                    |
        |                   | ◄── on_exhausted ────|                        |
        |  it was me: stop reading, wait           |      batch is safe ◄───|
        |                   | ◄── on_available ────| release: half is free  |
        | ◄── go on ────────|  one by one, while there is room              |

The bound follows: the read that crosses the line is finished (R, and M if it completed a large
body), and after that each connection gets one message through before it stops. Since only those
stop that charge while the credit is exhausted, a connection that consumes, or that publishes what
no disk will see, goes on; and acknowledgements, which make room, are never kept waiting behind
somebody else's publishes.

It is available again when half of it is free, not at the first byte: stopping and starting a
socket costs system calls, and a publisher should get to send a batch worth having. Nobody waits for
ever, because the bytes under way are in the hands of the commit thread alone, which needs nothing
from publishers; but whoever charges must release, also when a write failed.

Tested in tests/unit/flow/test_credit.py and test_brake.py.
"""

from __future__ import annotations

from collections.abc import Callable

from warren.flow.states import FlowRecord, Stage


class Credit:
    def __init__(self, bytes_max: int, stage: Stage = Stage.STORE) -> None:
        """`stage` is whom the bytes wait for, unless a debtor is charged: then it is the store."""
        assert bytes_max > 0, "nothing could ever be charged"
        self.bytes_max = bytes_max
        self.bytes_low = bytes_max // 2
        self.bytes_used = 0
        self.is_exhausted = False
        self.stage = stage
        """The stage that the last charge without room waits for."""
        self._stage_without_debtor = stage
        self.debtors: dict[FlowRecord, None] = {}
        self.on_exhausted: Callable[[Credit], None] | None = None
        self.on_available: Callable[[Credit], None] | None = None

    def charge(self, size_bytes: int, debtor: FlowRecord | None = None) -> None:
        """Count bytes in. `on_exhausted` hears of every charge that leaves no room, and the
        `debtor` is held until there is room again: the record of a queue, for bytes that are
        bound for the message store."""
        self.bytes_used += size_bytes
        if self.bytes_used >= self.bytes_max:
            self.overdraw(debtor)

    def overdraw(self, debtor: FlowRecord | None) -> None:
        self.is_exhausted = True
        self.stage = self._stage_without_debtor
        if debtor is not None:
            self.stage = Stage.STORE
            debtor.hold(self.stage)
            self.debtors[debtor] = None
        if self.on_exhausted is not None:
            self.on_exhausted(self)

    def release(self, size_bytes: int) -> None:
        """Count bytes out: they are safe, or it is settled that they never will be."""
        assert size_bytes <= self.bytes_used, "released what was never charged"
        self.bytes_used -= size_bytes
        if self.is_exhausted and self.bytes_used <= self.bytes_low:
            self.is_exhausted = False
            if self.on_available is not None:
                self.on_available(self)

    def resize(self, bytes_max: int) -> None:
        """Whoever is waiting goes on waiting until something is released."""
        self.bytes_max = bytes_max
        self.bytes_low = bytes_max // 2

    def free_debtors(self, now_ms: int) -> None:
        for debtor in self.debtors:
            debtor.release(now_ms)
        self.debtors.clear()
