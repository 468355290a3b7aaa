"""A whole cluster with one mirrored queue in one process, under one seed.

Everything that decides anything is the real thing: `Replica`, its ring, master and mirror, on real
variable queues. Played are the world around them: a store that is linearizable and slow, links that
are cut one-way or both ways and lose what was under way, disks that forget what was not synced when
their node is killed, clocks that are late, nodes that are killed or stand still, and clients.

A run does random work and random harm for a while, then heals everything, lets the cluster come to
rest, and compares what clients were told with what is there:

    P1  at no time did two nodes confirm or deliver for the queue
    P2  what was confirmed was delivered or is still there: confirmed - delivered = nothing
    E2  epochs never go back at a replica
    E3  every copy that the record calls in sync has the same messages
    and every copy is in sync again, for masters give mirrors what they lack
    and each publish was confirmed at most once
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from simulated_node import SimNode, SimReplica
from simulated_store import Schedule, SimStore, Violation

QUIET_MS: Final = 40_000
"""How long a cluster may take to come to rest."""
STILL_MS: Final = 2_000


@dataclass
class Client:
    """The publishers of one life of one node."""

    origin: str
    number: int = 0
    unconfirmed: dict[int, int] = field(default_factory=dict)


class World:
    def __init__(self, seed: int, nodes: int = 3) -> None:
        self.schedule = Schedule(seed)
        self.store = SimStore(self.schedule)
        self.nodes = {name: SimNode(self, name) for name in "abcdefg"[:nodes]}
        self.store.nodes = self.nodes
        self.cuts: set[tuple[str, str]] = set()
        self._link_life: dict[tuple[str, str], int] = {}
        self._last_arrival: dict[tuple[str, str], float] = {}
        self.clients: dict[str, Client] = {}
        self.bodies = 0
        self.confirmed: set[int] = set()
        self.published: set[int] = set()
        self.acked: set[int] = set()
        self.deliveries: dict[int, int] = {}
        self._pending: dict[SimReplica, set[tuple[str, int]]] = {}
        self.last_epoch = 0
        self.last_actor = ""
        for node in self.nodes.values():
            node.start()

    # Links.

    def is_linked(self, start: str, end: str) -> bool:
        return (start, end) not in self.cuts and self.nodes[end].is_up and self.nodes[start].is_up

    def send(self, start: str, end: str, what: Callable[[SimNode], object]) -> None:
        if not self.is_linked(start, end):
            return
        link = (start, end)
        life = self._link_life.get(link, 0)
        arrival = self.schedule.now_ms + self.schedule.delay(0.1, 4)
        arrival = max(arrival, self._last_arrival.get(link, 0))  # in order
        self._last_arrival[link] = arrival

        def arrive() -> None:
            node = self.nodes[end]
            if self._link_life.get(link, 0) == life and link not in self.cuts:
                node.when_running(lambda: what(node))

        self.schedule.after(arrival - self.schedule.now_ms, arrive)

    def cut(self, start: str, end: str) -> None:
        if (start, end) not in self.cuts:
            self.cuts.add((start, end))
            self._break(start, end)

    def _break(self, start: str, end: str) -> None:
        self._link_life[(start, end)] = self._link_life.get((start, end), 0) + 1
        node = self.nodes[start]
        delay = self.schedule.delay(1, 200)
        self.schedule.after(delay, lambda: node.when_running(lambda: self._tell_link(start, end)))

    def _tell_link(self, start: str, end: str) -> None:
        node = self.nodes[start]
        node.link_changed(end, False)
        if self.is_linked(start, end):
            node.link_changed(end, True)

    def heal(self, start: str, end: str) -> None:
        if (start, end) in self.cuts:
            self.cuts.discard((start, end))
            node = self.nodes[start]
            node.when_running(lambda: self._tell_link(start, end))

    def reset_links(self, name: str) -> None:
        for other in self.nodes:
            if other != name:
                self._break(other, name)
                self._break(name, other)

    def links_of(self, name: str) -> None:
        """The node is up: others link to it again."""
        for other in self.nodes:
            if other != name:
                self._break(other, name)

    # Clients.

    def client_of(self, node: SimNode) -> Client:
        origin = f"{node.name}/{node.incarnation}"
        return self.clients.setdefault(origin, Client(origin))

    def publish(self, node: SimNode) -> None:
        if not node.is_up or node.is_paused:
            return
        client = self.client_of(node)
        self.bodies += 1
        client.number += 1
        client.unconfirmed[client.number] = self.bodies
        self.published.add(self.bodies)
        self._send_publish(node, client, client.number)

    def send_again(self, node: SimNode) -> None:
        if node.is_up and not node.is_paused:
            client = self.client_of(node)
            for number in sorted(client.unconfirmed)[:50]:
                self._send_publish(node, client, number)

    def _send_publish(self, node: SimNode, client: Client, number: int) -> None:
        record = node.stored.record
        leader = None if record is None else record.find(record.leader)
        if leader is None:
            return
        body, origin = client.unconfirmed[number], client.origin
        lowest = min(client.unconfirmed)

        def arrive(at: SimNode) -> None:
            if at.part is not None:
                at.part.publish_arrived(origin, lowest, number, body)

        if leader.node == node.name:
            arrive(node)
        else:
            self.send(node.name, leader.node, arrive)

    def pending_at(self, part: SimReplica) -> set[tuple[str, int]]:
        return self._pending.setdefault(part, set())

    def note_pending(self, part: SimReplica, origin: str, number: int) -> None:
        self.pending_at(part).add((origin, number))

    def answered(self, part: SimReplica, origin: str, number: int) -> None:
        self._act(part, "confirms")
        self.pending_at(part).discard((origin, number))
        name = origin.split("/", maxsplit=1)[0]

        def arrive(node: SimNode) -> None:
            client = self.clients.get(origin)
            if client is not None and number in client.unconfirmed:
                self.confirmed.add(client.unconfirmed.pop(number))

        if name == part.node.name:
            arrive(part.node)
        else:
            self.send(part.node.name, name, arrive)

    def delivered(self, part: SimReplica, body: int) -> None:
        self._act(part, "delivers")
        self.deliveries[body] = self.deliveries.get(body, 0) + 1

    def _act(self, part: SimReplica, what: str) -> None:
        """P1: by epochs that never go back, with one node for each."""
        record = part.replica.record
        assert record is not None
        if record.epoch < self.last_epoch:
            raise Violation(
                f"P1: {part.node.name} {what} in epoch {record.epoch} after a later one"
            )
        if record.epoch == self.last_epoch and part.node.name != self.last_actor:
            raise Violation(f"P1: {part.node.name} {what}, and {self.last_actor} does")
        self.last_epoch, self.last_actor = record.epoch, part.node.name

    # Time.

    def tick(self) -> None:
        """Disks sync, consumers take, stores expire."""
        self.store.expire()
        for node in self.nodes.values():
            if node.is_up and not node.is_paused and node.part is not None:
                node.part.work_on_disk()
                node.part.act()


HARM: Final = (
    "kill",
    "kill",
    "pause",
    "cut",
    "cut",
    "cut_one_way",
    "isolate",
    "halve",
    "reset",
    "store_cut",
    "restart_all",
)


class Run:
    """One seed: work and harm, then peace, then the reckoning."""

    def __init__(self, seed: int, length_ms: float = 20_000) -> None:
        self.world = World(seed, nodes=2 + seed % 3)
        self.schedule = self.world.schedule
        self.random = self.schedule.random
        self.length_ms = length_ms
        self.is_peace = False
        self.is_still = False
        self.story: list[str] = []

    def run(self) -> None:
        world = self.world
        self._every(5, world.tick)
        self._every(self.random.uniform(3, 30), self._publish)
        self._every(self.random.uniform(5, 60), self._consume)
        self._every(250, lambda: [world.send_again(node) for node in world.nodes.values()])
        self.schedule.run_until(2_000)
        self._every(self.random.uniform(500, 3_000), self._harm)
        self.schedule.run_until(2_000 + self.length_ms)
        self._make_peace()
        self.schedule.run_until(2_000 + self.length_ms + QUIET_MS)
        self.is_still = True
        self.schedule.run_until(2_000 + self.length_ms + QUIET_MS + STILL_MS)
        self._reckon()

    def _every(self, interval_ms: float, do: Callable[[], object]) -> None:
        def again() -> None:
            do()
            self.schedule.after(interval_ms, again)

        self.schedule.after(interval_ms, again)

    def _publish(self) -> None:
        if not self.is_peace:
            self.world.publish(self.random.choice(list(self.world.nodes.values())))

    def _consume(self) -> None:
        if self.is_still:
            return
        for node in self.world.nodes.values():
            if node.part is not None and node.is_up and not node.is_paused:
                node.part.deliver_one()

    # Harm.

    def _harm(self) -> None:
        if self.is_peace:
            return
        what = self.random.choice(HARM)
        names = list(self.world.nodes)
        one, other = self.random.sample(names, 2)
        self.story.append(f"{self.schedule.now_ms:.0f}: {what} {one} {other}")
        lasting = self.random.uniform(50, 12_000)
        getattr(self, f"_{what}")(one, other, lasting)

    def _kill(self, one: str, _: str, lasting: float) -> None:
        node = self.world.nodes[one]
        if node.is_up:
            node.kill()
            self._later(lasting, lambda: None if node.is_up else node.start())

    def _pause(self, one: str, _: str, lasting: float) -> None:
        node = self.world.nodes[one]
        if node.is_up and not node.is_paused:
            node.pause()
            self._later(lasting, lambda: node.resume() if node.is_paused else None)

    def _cut(self, one: str, other: str, lasting: float) -> None:
        self._cut_one_way(one, other, lasting)
        self._cut_one_way(other, one, lasting)

    def _cut_one_way(self, one: str, other: str, lasting: float) -> None:
        self.world.cut(one, other)
        self._later(lasting, lambda: self.world.heal(one, other))

    def _isolate(self, one: str, _: str, lasting: float) -> None:
        for other in self.world.nodes:
            if other != one:
                self._cut(one, other, lasting)
        if self.random.random() < 0.5:
            self._store_cut(one, one, lasting)

    def _halve(self, one: str, other: str, lasting: float) -> None:
        sides: dict[bool, list[str]] = {True: [one], False: [other]}
        for name in self.world.nodes:
            if name not in (one, other):
                sides[self.random.random() < 0.5].append(name)
        for left in sides[True]:
            for right in sides[False]:
                self._cut(left, right, lasting)

    def _reset(self, one: str, other: str, _: float) -> None:
        self.world._break(one, other)

    def _store_cut(self, one: str, _: str, lasting: float) -> None:
        node = self.world.nodes[one]
        node.is_cut_from_store = True
        self._later(lasting, lambda: self._store_heal(node))

    def _store_heal(self, node: SimNode) -> None:
        node.is_cut_from_store = False
        node.read_store_soon()

    def _restart_all(self, *_: object) -> None:
        if self.random.random() < 0.3:
            for name in self.world.nodes:
                self._kill(name, name, self.random.uniform(50, 3_000))

    def _later(self, delay_ms: float, do: Callable[[], object]) -> None:
        self.schedule.after(delay_ms, lambda: None if self.is_peace else do())

    # Peace.

    def _make_peace(self) -> None:
        self.is_peace = True
        for start, end in tuple(self.world.cuts):
            self.world.heal(start, end)
        for node in self.world.nodes.values():
            self._store_heal(node)
            if not node.is_up:
                node.start()
            elif node.is_paused:
                node.resume()

    def _reckon(self) -> None:
        world = self.world
        leader = self._leader()
        master = leader.replica.master
        assert master is not None
        record = world.store.stored.record
        assert record is not None
        left = self._bodies_at(leader)
        lost = world.confirmed - set(world.deliveries) - left
        if lost:
            raise Violation(f"P2: confirmed and lost: {sorted(lost)[:10]}")
        waiting = [
            (node.name, len(world.client_of(node).unconfirmed)) for node in world.nodes.values()
        ]
        if any(count for _, count in waiting):
            raise Violation(f"publishes of living nodes without an answer: {waiting}")
        for node in world.nodes.values():
            if node.part is None or not record.is_live(node.part.replica.me.id):
                raise Violation(f"{node.name} has no part in the queue: {record}")
            if node.part.replica.me.id not in record.insync:
                raise Violation(f"{node.name} is not in sync: {record}")
            if self._bodies_at(node.part) != left:
                other = self._bodies_at(node.part)
                raise Violation(
                    f"E3: {node.name} is in sync and has {sorted(other - left)[:5]} more and "
                    f"{sorted(left - other)[:5]} less than {leader.node.name}"
                )

    def _leader(self) -> SimReplica:
        parts = [n.part for n in self.world.nodes.values() if n.part is not None]
        leaders = [p for p in parts if p.replica.master is not None and not p.has_ended]
        if len(leaders) != 1:
            raise Violation(f"{len(leaders)} leaders at the end: {self.world.store.stored}")
        return leaders[0]

    def _bodies_at(self, part: SimReplica) -> set[int]:
        index = part.disk.indexes.get(0)
        return set() if index is None else {int(q.message.body) for q in index.live.values()}


def simulate(seed: int) -> None:
    """Raises Violation, or whatever breaks, with the story of the run."""
    run = Run(seed)
    try:
        run.run()
    except Exception as error:
        story = "\n".join(run.story)
        raise Violation(f"seed {seed}: {type(error).__name__}: {error}\n{story}") from error
