"""Standstill: how long clients of a mirrored queue get nothing when links are cut or a disk fills.

    python -m cluster_chaos.standstill [--shapes pair,node,...] [--rate 100] [--keep DIRECTORY]

A mirrored queue on three nodes, with a publisher and a consumer at each of them. Each shape of
fault lasts for a while. The longest time without a confirm and without a delivery is measured for
every client whose node the clients can reach, and nothing that was confirmed may be missing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

from acceptance.raw_client import METHOD, ConnectionEnded, RawClient, encode_properties
from acceptance.raw_methods import decode_method
from broker_process import Address
from cluster_chaos.copies import groups_and_lives
from cluster_chaos.failover import QUEUE, Failover, SteadyPublisher
from cluster_chaos.faults import cut
from cluster_chaos.network import enter_own_network
from cluster_chaos.world import ChaosNode, World
from warren.replication.group_record import node_of

CANNOT_RUN: Final = 77
BEFORE_S: Final = 2.0
REFILL_S: Final = 0.1
PREFETCH: Final = 50
JOIN_S_MAX: Final = 60.0
QUIET_S: Final = 1.0
BACKLOG_SHARE: Final = 1.2
"""More than consumers can take while a fault lasts."""
_PERSISTENT: Final = encode_properties(delivery_mode=2)


class SteadyConsumer:
    """Acknowledges all that comes, and notes when it came."""

    def __init__(self, address: Address, pause_s: float) -> None:
        """`pause_s` between a delivery and its acknowledgement."""
        self.received: list[str] = []
        self.received_at: list[float] = []
        self.ended = ""
        self._pause_s = pause_s
        self._is_over = False
        self._client = RawClient(address)
        self._client.open()
        self._client.call(1, "basic.qos", prefetch_count=PREFETCH)
        self._client.call(1, "basic.consume", queue=QUEUE)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over = True
        self._thread.join(JOIN_S_MAX)
        self._client.drop()

    def _run(self) -> None:
        try:
            while not self._is_over:
                self._take()
        except (ConnectionError, ConnectionEnded) as error:
            self.ended = repr(error)

    def _take(self) -> None:
        try:
            frame = self._client.receive(0.2)
        except TimeoutError:
            return
        if frame.type != METHOD:
            return
        method = decode_method(frame.payload)
        if method.name != "basic.deliver":
            self.ended = f"unexpected {method}"
            return
        _, body = self._client.receive(), self._client.receive()
        self.received.append(body.payload.decode())
        self.received_at.append(time.monotonic())
        time.sleep(self._pause_s)
        self._client.send(1, "basic.ack", delivery_tag=method.delivery_tag)


# Faults. Each is given the world, the master's node and the two mirrors' nodes.

Nodes: TypeAlias = tuple[ChaosNode, ChaosNode, ChaosNode]
Shape: TypeAlias = Callable[[World, Nodes], AbstractContextManager[list[ChaosNode]]]


@contextmanager
def _deaf(world: World, *ways: tuple[ChaosNode, ChaosNode]) -> Iterator[list[ChaosNode]]:
    """What one node of each pair sends to the other is lost; clients reach all nodes."""
    for sender, other in ways:
        world.network.deafen(sender.number, other.host)
    yield world.nodes
    for sender, other in ways:
        world.network.undeafen(sender.number, other.host)


def master_and_mirror(world: World, nodes: Nodes) -> AbstractContextManager[list[ChaosNode]]:
    master, mirror, _ = nodes
    return _deaf(world, (master, mirror), (mirror, master))


def two_mirrors(world: World, nodes: Nodes) -> AbstractContextManager[list[ChaosNode]]:
    _, mirror, other = nodes
    return _deaf(world, (mirror, other), (other, mirror))


def master_to_mirror(world: World, nodes: Nodes) -> AbstractContextManager[list[ChaosNode]]:
    master, mirror, _ = nodes
    return _deaf(world, (master, mirror))


def mirror_to_master(world: World, nodes: Nodes) -> AbstractContextManager[list[ChaosNode]]:
    master, mirror, _ = nodes
    return _deaf(world, (mirror, master))


def mirror_to_mirror(world: World, nodes: Nodes) -> AbstractContextManager[list[ChaosNode]]:
    _, mirror, other = nodes
    return _deaf(world, (mirror, other))


def master_from_mirrors(world: World, nodes: Nodes) -> AbstractContextManager[list[ChaosNode]]:
    """The master reaches etcd and clients, and no other node."""
    master, mirror, other = nodes
    pairs = [(master, each) for each in (mirror, other)]
    return _deaf(world, *pairs, *[(b, a) for a, b in pairs])


@contextmanager
def master_alone(world: World, nodes: Nodes) -> Iterator[list[ChaosNode]]:
    """The master is cut off from everybody: other nodes, etcd and clients."""
    with cut(world, nodes[0]):
        yield list(nodes[1:])


@contextmanager
def mirror_alone(world: World, nodes: Nodes) -> Iterator[list[ChaosNode]]:
    with cut(world, nodes[1]):
        yield [nodes[0], nodes[2]]


@contextmanager
def full_disk(world: World, nodes: Nodes) -> Iterator[list[ChaosNode]]:
    """The file system of the master's node is full to the last byte."""
    disk = nodes[0].disk
    assert disk is not None, "nodes of this world have small disks"
    is_over = threading.Event()

    def keep_full() -> None:
        while not is_over.wait(REFILL_S):
            disk.fill()

    disk.fill()
    thread = threading.Thread(target=keep_full, daemon=True)
    thread.start()
    yield world.nodes
    is_over.set()
    thread.join()
    disk.make_room()


SHAPES: Final[dict[str, Shape]] = {
    shape.__name__.replace("_", "-"): shape
    for shape in (
        master_and_mirror,
        two_mirrors,
        master_to_mirror,
        mirror_to_master,
        mirror_to_mirror,
        master_from_mirrors,
        master_alone,
        mirror_alone,
        full_disk,
    )
}


def longest_gap_s(times: list[float], begin: float, end: float) -> float:
    """The longest time within the two in which nothing happened."""
    inside = [at for at in times if begin < at < end]
    return max(b - a for a, b in pairwise([begin, *inside, end]))


@dataclass(frozen=True)
class Outcome:
    shape: str
    confirms_s: dict[str, float]
    deliveries_s: dict[str, float]
    confirmed: int
    nacked: int
    lost: int
    masters: tuple[str, str]
    """Before the fault, and at its end."""

    def __str__(self) -> str:
        before, after = self.masters
        return (
            f"{self.shape}: no confirm for {max(self.confirms_s.values()):.1f} s, "
            f"no delivery for {max(self.deliveries_s.values()):.1f} s; "
            f"{self.confirmed} confirmed, {self.nacked} nacked, {self.lost} lost; "
            f"led by {before}, then {after}; "
            f"confirms {_seconds(self.confirms_s)}; deliveries {_seconds(self.deliveries_s)}"
        )


def _seconds(by_node: dict[str, float]) -> str:
    return " ".join(f"{node}={seconds:.1f}" for node, seconds in by_node.items())


class Clients:
    """A publisher and a consumer at each node."""

    def __init__(self, name: str, nodes: list[ChaosNode], rate: float) -> None:
        self.publishers = {n: SteadyPublisher(f"{name}-{n.number}", n.amqp, rate) for n in nodes}
        self.consumers = {n: SteadyConsumer(n.amqp, 1 / rate) for n in nodes}
        for client in (*self.publishers.values(), *self.consumers.values()):
            client.start()

    def require_none_ended(self, nodes: list[ChaosNode]) -> None:
        for clients in (self.publishers, self.consumers):
            ended = {node.name: clients[node].ended for node in nodes if clients[node].ended}
            assert not ended, f"clients were sent away: {ended}"


class Standstill:
    def __init__(self, directory: Path, rate: float, lasts_s: float) -> None:
        self._failover = Failover(directory, rate, has_small_disks=True)
        self.world = self._failover.world
        self._rate = rate
        self._lasts_s = lasts_s

    def prepare(self) -> None:
        self._failover.prepare()

    def measure(self, shape: str) -> Outcome:
        nodes = self.world.nodes
        master = self._failover.await_copies()
        first, second = [node for node in nodes if node is not master]
        self._build_up_backlog()
        clients = Clients(shape, nodes, self._rate)
        publishers, consumers = clients.publishers, clients.consumers
        time.sleep(BEFORE_S)
        with SHAPES[shape](self.world, (master, first, second)) as reachable:
            began = time.monotonic()
            time.sleep(self._lasts_s)
            ended = time.monotonic()
            leader = node_of(groups_and_lives(self.world)[0][QUEUE].leader)
        clients.require_none_ended(reachable)
        self.world.await_ready()
        for publisher in publishers.values():
            publisher.stop()
        confirmed = {id_ for publisher in publishers.values() for id_ in publisher.confirmed}
        gap_s = partial(longest_gap_s, begin=began, end=ended)
        return Outcome(
            shape,
            {node.name: gap_s(publishers[node].confirmed_at) for node in reachable},
            {node.name: gap_s(consumers[node].received_at) for node in reachable},
            confirmed=len(confirmed),
            nacked=sum(publishers[node].nacked for node in reachable),
            lost=self._count_lost(confirmed, list(consumers.values())),
            masters=(master.name, leader),
        )

    def _build_up_backlog(self) -> None:
        """Consumers shall have something to do even if nobody can publish."""
        seconds = BACKLOG_SHARE * (self._lasts_s + BEFORE_S)
        count = int(seconds * self._rate * len(self.world.nodes))
        with RawClient(self.world.nodes[0].amqp) as client:
            client.open()
            client.call(1, "confirm.select")
            for number in range(count):
                client.publish(1, f"backlog.{number}".encode(), _PERSISTENT, routing_key=QUEUE)
            tag = 0
            while tag < count:
                method = decode_method(client.receive().payload)
                if method.name == "basic.ack":
                    tag = method.delivery_tag

    def _count_lost(self, confirmed: set[str], consumers: list[SteadyConsumer]) -> int:
        """Empty the queue; the number of confirmed messages that nobody has got."""
        for consumer in consumers:
            consumer.stop()
        received = {id_ for consumer in consumers for id_ in consumer.received}
        with RawClient(self.world.nodes[0].amqp) as client:
            client.open()
            client.call(1, "basic.consume", queue=QUEUE, no_ack=True)
            try:
                while True:
                    received.add(client.expect_content(1, "basic.deliver", QUIET_S).body.decode())
            except TimeoutError:
                return len(confirmed - received)


def main() -> int:
    parser = argparse.ArgumentParser(prog="standstill", description="Measure standstills.")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--rate", type=float, default=100.0, help="of each publisher")
    parser.add_argument("--lasts", type=float, default=20.0, help="seconds that each fault lasts")
    parser.add_argument("--keep", type=Path, help="where to work, and to leave everything")
    options = parser.parse_args()
    reason = enter_own_network("cluster_chaos.standstill")
    if reason is not None:
        print(f"CANNOT RUN: no namespaces here: {reason}", file=sys.stderr)
        return CANNOT_RUN
    with tempfile.TemporaryDirectory(prefix="standstill-") as temporary:
        directory = options.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        standstill = Standstill(directory, options.rate, options.lasts)
        try:
            standstill.prepare()
            for shape in options.shapes.split(","):
                print(standstill.measure(shape), flush=True)
        finally:
            standstill.world.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
