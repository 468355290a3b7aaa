"""A random life of a group: members come, go, die and stall while everybody talks."""

from __future__ import annotations

from gm_invariants import Violation
from gm_world import STEPS_MAX, Machine, Peer, World
from support.schedule import EndlessWorld
from warren.replication.gm.member import GroupMember

NODES = "abcdefg"
TURNS = 60
TURN_US = 8_000


class Scenario:
    def __init__(self, seed: int, machine: Machine = GroupMember) -> None:
        self.world = World(seed, machine)
        self.random = self.world.random
        self.world.network.duplicate_chance = self.random.choice([0.0, 0.0, 0.02])
        self.turn_us = self.random.choice([TURN_US // 8, TURN_US, TURN_US * 4])
        self.calm = self.random.random() * 0.8

    def run(self) -> World:
        """Raises Violation, with the seed in it, if anything is wrong."""
        seed = self.world.schedule.seed
        try:
            self._live()
            self._come_to_rest()
        except (AssertionError, EndlessWorld) as error:
            raise Violation(f"seed {seed}: {type(error).__name__}: {error}") from error
        return self.world

    def _live(self) -> None:
        world, schedule = self.world, self.world.schedule
        for node in NODES[: self.random.randint(1, len(NODES))]:
            world.start(node)
        for _ in range(TURNS):
            schedule.run(STEPS_MAX, schedule.now_us + self.random.randint(1, self.turn_us))
            if self.random.random() < self.calm:
                self._talk()
            else:
                self.random.choice(
                    [
                        self._talk,
                        self._talk,
                        self._come,
                        self._come,
                        self._orphan,
                        self._die,
                        self._stall,
                        self._wake,
                        self._reset,
                        self._cut,
                        self._mend,
                        self._slow_down,
                        self._leave,
                        self._expel,
                    ]
                )()

    def _come_to_rest(self) -> None:
        world = self.world
        for peer in list(world.peers.values()):
            world.resume(peer)
        world.network.mend_all()
        world.settle()
        for peer in world.members:
            peer.broadcast_now()
        world.settle()
        if any(p.is_member for p in world.peers.values()):
            world.witness.at_rest()

    def _someone(self) -> Peer | None:
        members = [p for p in self.world.peers.values() if p.is_member]
        return self.random.choice(members) if members else None

    def _talk(self) -> None:
        leader = self.world.leader
        peer = leader if self.random.random() < 0.6 else self._someone()
        if peer is not None:
            peer.broadcast(self.random.randint(1, 8))
            if self.random.random() < 0.3:
                peer.broadcast_now()

    def _come(self) -> None:
        free = [n for n in NODES if n not in self.world.by_node or not self._is_used(n)]
        if free:
            self.world.start(self.random.choice(free))

    def _is_used(self, node: str) -> bool:
        peer = self.world.by_node[node]
        return peer.is_member or (node, peer.session.incarnation) in self.world.store.sessions

    def _orphan(self) -> None:
        """Who lets a newcomer in dies about then, in the middle of a sentence."""
        leader = self.world.leader
        if leader is not None and leader.is_member:
            self._come()
            for _ in range(10):
                self.world.schedule.soon(8_000, leader.broadcast)
            self.world.schedule.after(
                self.random.randint(2_000, 8_000), lambda: self.world.kill(leader, 2_000)
            )

    def _die(self) -> None:
        peer = self._someone()
        if peer is not None:
            self.world.kill(peer, self.random.choice([10, 2_000, 50_000]))

    def _stall(self) -> None:
        peer = self._someone()
        if peer is not None:
            self.world.pause(peer)
            if self.random.random() < 0.5:
                self.world.schedule.soon(30_000, lambda: self.world.end_session(peer))

    def _wake(self) -> None:
        stalled = [p for p in self.world.peers.values() if p.is_paused]
        if stalled:
            self.world.resume(self.random.choice(stalled))

    def _pair(self) -> tuple[str, str]:
        source, target = self.random.sample(NODES, 2)
        return source, target

    def _reset(self) -> None:
        self.world.network.reset(*self._pair(), is_noticed=self.random.random() < 0.5)

    def _cut(self) -> None:
        self.world.network.cut(*self._pair(), is_noticed=self.random.random() < 0.5)

    def _mend(self) -> None:
        self.world.network.mend(*self._pair())

    def _slow_down(self) -> None:
        delay = self.random.choice([10, 1_000, 20_000])
        self.world.network.slow_down(*self._pair(), delay)

    def _leave(self) -> None:
        peer = self._someone()
        if peer is not None and self.random.random() < 0.5:
            self.world.leave(peer)

    def _expel(self) -> None:
        leader, victim = self.world.leader, self._someone()
        if leader is not None and victim is not None and leader is not victim:
            self.world.expel(leader, victim)
