"""Failover: how long publishers wait when a node is killed, paused or cut off, and what is lost.

    python -m cluster_chaos.failover [--how kill,...] [--type quorum] [--rate 2000] [--keep DIR]

A mirrored queue, or a quorum queue, on three nodes. The node of its master is hurt, or that of a
mirror (`mirror-kill`, `mirror-pause`, `mirror-cut`) for which confirms have to wait.

One publisher is at a mirror's node that is well, one at the master's; both send at a given rate and
wait for nothing. The first one's longest time without a confirm is what a failover costs. The
second one shows whether a master promises what it cannot keep: whatever was confirmed to either of
them must be in the queue when all is well again, and nothing else may be.
"""

from __future__ import annotations

import argparse
import select
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from acceptance.raw_client import (
    BODY,
    HEADER,
    METHOD,
    ConnectionEnded,
    RawClient,
    encode_properties,
    frame_bytes,
    header_payload,
)
from acceptance.raw_methods import Method, decode_method, encode_method
from broker_process import Address
from cluster_chaos.copies import groups_and_lives
from cluster_chaos.faults import cut, kill, pause
from cluster_chaos.harms import Fault
from cluster_chaos.network import enter_own_network
from cluster_chaos.world import ChaosNode, World

QUEUE: Final = "mirrored"
POLICY: Final = {
    "ha-mode": "all",
    "ha-sync-mode": "automatic",
    "ha-promote-on-failure": "when-synced",
}
BEFORE_S: Final = 1.0
AFTER_S: Final = 1.0
RESUME_S_MAX: Final = 60.0
WELL_S_MAX: Final = 90.0
CANNOT_RUN: Final = 77
FAULTS: Final[dict[str, Fault]] = {"kill": kill, "pause": pause, "cut": cut}
OF_MIRRORS: Final = "mirror-"
SHAPES: Final = (*FAULTS, *(f"{OF_MIRRORS}{how}" for how in FAULTS))
TYPES: Final[dict[str, dict[str, object]]] = {
    "mirrored": {},
    "quorum": {"x-queue-type": "quorum"},
}
TICK_S: Final = 0.002
HEAD_BYTES: Final = 7
PIECE_BYTES: Final = 65_536
_PUBLISH: Final = frame_bytes(METHOD, 1, encode_method("basic.publish", routing_key=QUEUE))
_PERSISTENT: Final = encode_properties(delivery_mode=2)


class SteadyPublisher:
    """Sends at a rate, whether or not it is answered, and notes when what was confirmed."""

    def __init__(self, name: str, address: Address, rate: float) -> None:
        self.name = name
        self.sent: list[str] = []
        self.confirmed: list[str] = []
        self.confirmed_at: list[float] = []
        self.nacked = 0
        self.ended = ""
        self._rate = rate
        self._is_over = False
        self._open: dict[int, str] = {}
        client = RawClient(address)
        client.open()
        client.call(1, "confirm.select")
        self._socket = client.socket
        self._socket.setblocking(False)
        self._output = bytearray()
        self._input = bytearray()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send no more; what is answered within a while counts."""
        self._rate = 0.0
        deadline = time.monotonic() + WELL_S_MAX
        while self._open and not self.ended and time.monotonic() < deadline:
            time.sleep(0.05)
        self._is_over = True
        self._thread.join(WELL_S_MAX)
        self._socket.close()

    def longest_silence_s(self, since: float) -> float:
        times = [since, *(at for at in self.confirmed_at if at >= since)]
        return max((b - a for a, b in pairwise(times)), default=float("inf"))

    def _run(self) -> None:
        began = time.monotonic()
        try:
            while not self._is_over:
                self._publish(int((time.monotonic() - began) * self._rate) - len(self.sent))
                self._exchange()
        except (ConnectionError, ConnectionEnded) as error:
            self.ended = repr(error)

    def _publish(self, count: int) -> None:
        for _ in range(count):
            id_ = f"{self.name}.{len(self.sent)}"
            self.sent.append(id_)
            self._open[len(self.sent)] = id_
            self._output += _PUBLISH + frame_bytes(HEADER, 1, header_payload(len(id_), _PERSISTENT))
            self._output += frame_bytes(BODY, 1, id_.encode())

    def _exchange(self) -> None:
        wanted = [self._socket] if self._output else []
        readable, writable, _ = select.select([self._socket], wanted, [], TICK_S)
        if writable:
            del self._output[: self._socket.send(self._output[:PIECE_BYTES])]
        if readable:
            piece = self._socket.recv(PIECE_BYTES)
            if not piece:
                raise ConnectionEnded
            self._input += piece
            self._take_frames()
        if not wanted:
            time.sleep(TICK_S)

    def _take_frames(self) -> None:
        while len(self._input) >= HEAD_BYTES:
            kind, _, size = struct.unpack(">BHI", self._input[:HEAD_BYTES])
            if len(self._input) < HEAD_BYTES + size + 1:
                return
            payload = bytes(self._input[HEAD_BYTES : HEAD_BYTES + size])
            del self._input[: HEAD_BYTES + size + 1]
            if kind == METHOD:
                self._answered(decode_method(payload))

    def _answered(self, method: Method) -> None:
        if method.name not in {"basic.ack", "basic.nack"}:
            return
        first = min(self._open, default=0) if method.multiple else method.delivery_tag
        now = time.monotonic()
        for tag in range(first, method.delivery_tag + 1):
            id_ = self._open.pop(tag, None)
            if id_ is not None and method.name == "basic.ack":
                self.confirmed.append(id_)
                self.confirmed_at.append(now)
            elif id_ is not None:
                self.nacked += 1


@dataclass(frozen=True)
class Outcome:
    how: str
    silence_s: float
    confirmed: int
    nacked: int
    lost: int
    unexpected: int
    twice: int

    def __str__(self) -> str:
        return (
            f"{self.how}: no confirm for {self.silence_s:.3f} s; {self.confirmed} confirmed, "
            f"{self.nacked} nacked, {self.lost} lost, {self.unexpected} unexpected, "
            f"{self.twice} twice"
        )


class Failover:
    def __init__(self, directory: Path, rate: float, has_small_disks: bool = False) -> None:
        self.world = World(directory, has_small_disks)
        self.arguments: dict[str, object] = {}
        self._rate = rate

    def prepare(self) -> None:
        self.world.start()
        body = {"pattern": QUEUE, "definition": POLICY, "apply-to": "queues"}
        self.world.nodes[0].ask(f"/api/policies/%2F/{QUEUE}", "PUT", body)
        client = self._client(self.world.nodes[0])
        client.call(1, "queue.declare", queue=QUEUE, durable=True, arguments=self.arguments)
        client.drop()

    def _client(self, node: ChaosNode) -> RawClient:
        client = RawClient(node.amqp)
        client.open()
        return client

    def measure(self, how: str) -> Outcome:
        master = self.await_copies()
        mirror, other = (node for node in self.world.nodes if node is not master)
        victim = other if how.startswith(OF_MIRRORS) else master
        elsewhere = SteadyPublisher(f"{how}-elsewhere", mirror.amqp, self._rate)
        there = SteadyPublisher(f"{how}-there", master.amqp, self._rate / 4)
        for publisher in (elsewhere, there):
            publisher.start()
        time.sleep(BEFORE_S)
        with FAULTS[how.removeprefix(OF_MIRRORS)](self.world, victim):
            began = time.monotonic()
            self._await_confirms(elsewhere, began)
            time.sleep(AFTER_S)
            silence_s = elsewhere.longest_silence_s(began)
        self.world.await_ready()
        elsewhere.stop()
        there.stop()
        self.await_copies()
        return self._outcome(how, silence_s, [elsewhere, there])

    def _await_confirms(self, publisher: SteadyPublisher, began: float) -> None:
        """Of what was published after the fault: then the queue has a master again."""
        behind = len(publisher.sent) + 1
        deadline = began + RESUME_S_MAX
        while len(publisher.confirmed) < behind:
            assert time.monotonic() < deadline, f"no confirms for {RESUME_S_MAX:g} s"
            assert not publisher.ended, publisher.ended
            time.sleep(0.01)

    def await_copies(self) -> ChaosNode:
        """All in sync; the master's node."""
        deadline = time.monotonic() + WELL_S_MAX
        while True:
            groups, lives = groups_and_lives(self.world)
            group = groups.get(QUEUE)
            alive = [] if group is None else [
                m for m in group.live if (m.node, m.incarnation) in lives and m.id in group.insync
            ]  # fmt: skip
            leader = None if group is None else group.find(group.leader)
            if len(alive) == len(self.world.nodes) and leader in alive:
                assert leader is not None
                return next(node for node in self.world.nodes if node.name == leader.node)
            assert time.monotonic() < deadline, f"copies are not in sync: {group}"
            self.world.revive()
            time.sleep(0.1)

    def _outcome(self, how: str, silence_s: float, publishers: list[SteadyPublisher]) -> Outcome:
        """Of publishers; the first one has always been at a node that is well."""
        found = Counter(self._empty())
        sent = {id_ for publisher in publishers for id_ in publisher.sent}
        confirmed = {id_ for publisher in publishers for id_ in publisher.confirmed}
        return Outcome(
            how,
            silence_s,
            confirmed=len(confirmed),
            nacked=publishers[0].nacked,
            lost=len(confirmed - found.keys()),
            unexpected=len(found.keys() - sent),
            twice=sum(count > 1 for count in found.values()),
        )

    def _empty(self) -> list[str]:
        client = self._client(self.world.nodes[0])
        declared = client.call(1, "queue.declare", queue=QUEUE, durable=True, passive=True)
        client.call(1, "basic.consume", queue=QUEUE, no_ack=True)
        contents = [
            client.expect_content(1, "basic.deliver") for _ in range(declared.message_count)
        ]
        client.expect_silence()
        client.drop()
        return [content.body.decode() for content in contents]


def main() -> int:
    parser = argparse.ArgumentParser(prog="failover", description="Measure failovers.")
    parser.add_argument("--how", default=",".join(SHAPES), help="some of them, in this order")
    parser.add_argument("--type", choices=TYPES, default="mirrored", help="of the queue")
    parser.add_argument("--rate", type=float, default=2000.0, help="of the publisher elsewhere")
    parser.add_argument("--keep", type=Path, help="where to work, and to leave everything")
    options = parser.parse_args()
    reason = enter_own_network("cluster_chaos.failover")
    if reason is not None:
        print(f"CANNOT RUN: no namespaces here: {reason}", file=sys.stderr)
        return CANNOT_RUN
    with tempfile.TemporaryDirectory(prefix="failover-") as temporary:
        directory = options.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        failover = Failover(directory, options.rate)
        failover.arguments = TYPES[options.type]
        try:
            failover.prepare()
            for how in options.how.split(","):
                print(failover.measure(how), flush=True)
        finally:
            failover.world.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
