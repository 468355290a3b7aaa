"""The ring of a mirrored queue (guaranteed multicast), by traces of the simulator."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from cluster.conftest import OpenOn
from cluster.mirrored import MirroredCluster, publish_all
from cluster.nodes import eventually
from gm_by_hand import ByHand
from gm_scenario import Scenario
from gm_world import STEPS_MAX, Peer, World
from warren.replication.gm.events import Broadcast, Timer, TimerFired
from warren.replication.gm.frames import (
    Activity,
    AddOnRight,
    Catchup,
    Frame,
    Payload,
    decode_frames,
)
from warren.replication.gm.member import FLUSH_MS
from warren.replication.gm.ring import BUFFER_BYTES_MAX
from warren.replication.gm.ring_view import RingView

LIVES = 40
TIMER_OF_CONFIRMS_S = 0.2


@dataclass(frozen=True)
class Hop:
    at_us: int
    source: str
    target: str
    frame: Frame
    payloads: tuple[Payload, ...]


@dataclass
class Trace:
    """Frames that members of a simulated group send each other, from now on."""

    world: World
    hops: list[Hop] = field(default_factory=list)

    def __post_init__(self) -> None:
        send = self.world.network.send

        def record(source: str, target: str, message: object) -> None:
            assert isinstance(message, tuple)
            frame, payloads = next(decode_frames(message[1]))
            hop = Hop(self.world.schedule.now_us, source, target, frame, payloads)
            self.hops.append(hop)
            send(source, target, message)

        self.world.network.send = record  # type: ignore[method-assign]

    def of(self, *kinds: type[Frame]) -> list[Hop]:
        return [hop for hop in self.hops if isinstance(hop.frame, kinds)]

    def about(self, origin: Peer) -> list[Hop]:
        """Frames that bring publications of one member, or say who has them."""
        return [
            hop
            for hop in self.of(Activity, Catchup)
            if isinstance(hop.frame, Activity | Catchup)
            and any(each.origin == origin.id for each in hop.frame.progress)
        ]


def grown(seed: int, count: int) -> tuple[World, Peer, Trace]:
    """A group of so many members at rest, its leader, and a trace of what they say."""
    world = World(seed)
    world.grow(count)
    assert world.leader is not None
    return world, world.leader, Trace(world)


def ring_from(world: World, first: Peer) -> list[Peer]:
    """All members from this one to the right."""
    assert world.store.value is not None
    view = RingView(world.store.value)
    ring = [first.id]
    while (right := view.right_of(ring[-1]).id) != first.id:
        ring.append(right)
    return [world.peers[member] for member in ring]


def run_for(world: World, us: int) -> None:
    world.schedule.run(STEPS_MAX, world.schedule.now_us + us)


def test_c038_groups(four: MirroredCluster, open_on: OpenOn, name: str) -> None:
    """A mirrored queue has a group in the metadata store, whose version grows with each change."""
    queue = f"mirrored-{name}"
    open_on(four.nodes[0]).queue_declare(queue, durable=True)
    four.await_in_sync(queue)
    before = four.group(queue)
    assert before is not None
    assert {member.node for member in before.live} == {node.name for node in four.nodes}
    names = [node.name for node in four.nodes[:2]]
    four.mirror(name, f"^{queue}$", {"ha-mode": "nodes", "ha-params": names}, 1)
    eventually(lambda: _members(four, queue) == 2, "two members have left")
    fewer = four.group(queue)
    four.stop_mirroring(name)
    eventually(lambda: _members(four, queue) == 4, "and two have come")
    more = four.group(queue)
    assert fewer is not None
    assert more is not None
    assert before.view < fewer.view < more.view
    shown = four.nodes[3].api.get("warren", "queues", "/", queue, "ring").body
    assert (shown["view"], shown["epoch"]) >= (more.view, more.epoch)


def _members(cluster: MirroredCluster, queue: str) -> int:
    group = cluster.group(queue)
    return 0 if group is None else len(group.live)


def test_c039_round() -> None:
    """A message goes from the master round the ring until it is back: then all have it."""
    world, leader, trace = grown(seed=39, count=4)
    leader.broadcast()
    told_at: list[int] = []
    while not leader.journal.settled:
        run_for(world, 100)
        told_at.append(len(trace.about(leader)))
    ring = [peer.node for peer in ring_from(world, leader)]
    hops = trace.about(leader)[: len(ring)]
    assert [(hop.source, hop.target) for hop in hops] == list(
        zip(ring, [*ring[1:], ring[0]], strict=True)
    )
    assert [len(hop.payloads) for hop in hops] == [1, 1, 1, 0], "its origin has it already"
    assert all(peer.journal.heard[leader.id] for peer in world.members)


def test_c040_catchup() -> None:
    """Neighbours watch each other: the one left of a dead member sends on what that one had."""
    world, leader, trace = grown(seed=40, count=4)
    _, left, dead, right = ring_from(world, leader)
    leader.broadcast(50)
    while not dead.journal.heard.get(leader.id):
        run_for(world, 10)
    world.kill(dead)
    before = len(trace.hops)
    world.settle()
    catchups = [hop for hop in trace.of(Catchup) if hop in trace.hops[before:]]
    assert (left.node, right.node) in {(hop.source, hop.target) for hop in catchups}
    said = [f"{leader.id}#{number}".encode() for number in range(1, 51)]
    for survivor in world.members:
        assert list(survivor.journal.heard[leader.id].values())[-50:] == said
        assert dead.id in survivor.journal.dead
    world.witness.at_rest()


def test_c041_joining() -> None:
    """A newcomer asks a member to let it in, and stands right of that one."""
    world, leader, trace = grown(seed=41, count=3)
    newcomer = world.start("z")
    world.settle()
    asked = trace.of(AddOnRight)
    assert {(hop.source, hop.target) for hop in asked} == {(newcomer.node, leader.node)}
    assert ring_from(world, leader)[1] is newcomer


def test_c042_second_round() -> None:
    """A second round, of acknowledgements, lets the mirrors forget what all have."""
    group = ByHand("a", "b", "c")
    group.broadcast("a", b"m")
    for source, target in (("a", "c"), ("c", "b")):
        group.carry(source, target)
        assert group.settled("a") == 0
    group.tell("b", TimerFired(Timer.ACKS))  # the last step is only a number, and may wait
    group.carry("b", "a")
    assert group.settled("a") == 1
    assert (group.pending("b"), group.pending("c")) == ({"a": 1}, {"a": 1})
    group.broadcast("a", b"n")  # the acknowledgement rides along
    group.carry("a", "c")
    group.carry("c", "b")
    assert (group.pending("b"), group.pending("c")) == ({"a": 1}, {"a": 1}), "of n alone"
    group.settle()
    assert (group.pending("b"), group.pending("c")) == ({}, {})
    assert group.heard("b") == group.heard("c") == [b"m", b"n"]


def test_c043_buffer() -> None:
    """Broadcasts are gathered in a buffer, which a timer flushes."""
    world, leader, trace = grown(seed=43, count=3)
    began_us = world.schedule.now_us
    for _ in range(3):
        leader.tell(Broadcast(leader.journal.next_payload(), 100))
    run_for(world, (FLUSH_MS - 1) * 1_000)
    assert trace.about(leader) == []
    world.settle()
    first = trace.about(leader)[0]
    assert len(first.payloads) == 3
    assert first.at_us == began_us + FLUSH_MS * 1_000


def test_c044_full_buffer() -> None:
    """A buffer of more than 100 MB is sent at once."""
    world, leader, trace = grown(seed=44, count=3)
    assert BUFFER_BYTES_MAX == 100_000_000
    leader.tell(Broadcast(leader.journal.next_payload(), BUFFER_BYTES_MAX))
    assert trace.about(leader) == []
    leader.tell(Broadcast(leader.journal.next_payload(), 1))
    (sent,) = trace.about(leader)
    assert (sent.at_us, len(sent.payloads)) == (world.schedule.now_us, 2)


def test_c045_confirms(four: MirroredCluster, open_on: OpenOn, name: str) -> None:
    """A timer of 200 ms has a queue's confirms sent."""
    queue = f"mirrored-{name}"
    channel = open_on(four.nodes[0], confirms=True)
    channel.queue_declare(queue, durable=True)
    four.await_in_sync(queue)
    took = []
    for number in range(20):
        began = time.monotonic()
        publish_all(channel, queue, [b"%d" % number])
        took.append(time.monotonic() - began)
    assert min(took) < TIMER_OF_CONFIRMS_S / 4


def test_c046_all_or_none() -> None:
    """All members that live get a message, or none of them does."""
    settled = 0
    for seed in range(LIVES):  # members die, stall and come; I2 of gm_invariants is this claim
        settled += Scenario(4_600 + seed).run().witness.settled
    assert settled > LIVES
