"""Harm that can happen to a cluster: to whom, and for how long, is up to chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cluster_simulation.node import SimNode
from cluster_simulation.world import World
from warren.cluster.events import RelocationWanted
from warren.policy.wanted_copies import Mirroring, MirrorMode
from warren.replication.group_record import node_of

LASTING_US: Final = (10_000, 8_000_000)


class Harm:
    def __init__(self, world: World) -> None:
        self._world = world
        self._schedule = world.schedule
        self._dice = world.schedule.random
        self.story: list[str] = []
        self._kinds: tuple[Callable[[], str], ...] = (
            self._kill,
            self._kill,
            self._kill_leader,
            self._stop,
            self._stop,
            self._stop_leader,
            self._drain,
            self._relocate,
            self._relocate,
            self._pause,
            self._cut,
            self._cut,
            self._cut_one_way,
            self._cut_one_way,
            self._isolate,
            self._halve,
            self._reset,
            self._slow_link,
            self._store_cut,
            self._slow_store,
            self._store_outage,
            self._compact,
            self._fill_disk,
            self._restart_all,
            self._policy,
            self._policy,
            self._lose_consumers,
            self._purge,
        )

    def strike(self) -> None:
        if not self._world.is_peaceful:
            kind = self._dice.choice(self._kinds)
            before_ms = self._schedule.now_us / 1_000
            self.story.append(f"{before_ms:.1f} ms: {kind.__name__.strip('_')} {kind()}")

    # Whom, and for how long.

    def _some(self) -> SimNode:
        return self._world.nodes[self._dice.choice(sorted(self._world.nodes))]

    def _leader(self) -> SimNode | None:
        record = self._world.record
        return None if record is None else self._world.nodes[node_of(record.leader)]

    def _pair(self) -> tuple[str, str]:
        one, other = self._dice.sample(sorted(self._world.nodes), 2)
        return one, other

    def _then(self, undo: Callable[[], object]) -> str:
        lasting_us = self._dice.randint(*LASTING_US)
        if self._dice.random() < 0.5:
            lasting_us //= 10

        def end() -> None:
            if not self._world.is_peaceful:
                undo()

        self._schedule.after(lasting_us, end)
        return f"for {lasting_us / 1_000:.1f} ms"

    # Nodes.

    def _kill(self) -> str:
        return self._kill_one(self._some())

    def _kill_leader(self) -> str:
        leader = self._leader()
        return "" if leader is None else self._kill_one(leader)

    def _kill_one(self, node: SimNode) -> str:
        if not node.is_up:
            return "nobody"
        node.kill()
        return f"{node.name} {self._then(node.start_again)}"

    def _stop(self) -> str:
        return self._stop_one(self._some())

    def _stop_leader(self) -> str:
        leader = self._leader()
        return "" if leader is None else self._stop_one(leader)

    def _stop_one(self, node: SimNode) -> str:
        """In good order: whoever lacks nothing leads instead, if that does not take too long."""
        process = node.running
        if process is None:
            return "nobody"
        process.stop()

        def start_again() -> None:
            if node.process is None:
                node.start()
            elif node.process is process:
                self._then(start_again)

        return f"{node.name} {self._then(start_again)}"

    def _drain(self) -> str:
        node = self._some()
        node.do(lambda process: process.drain(is_drained=True))

        def revive() -> None:
            node.do(lambda process: process.drain(is_drained=False))

        return f"{node.name} {self._then(revive)}"

    def _relocate(self) -> str:
        leader, to = self._leader(), self._some()
        if leader is None:
            return "nobody"
        wanted = RelocationWanted(self._world.queue_name, to.name)
        leader.do(lambda process: process.shell.tell(wanted))
        return f"from {leader.name} to {to.name}"

    def _pause(self) -> str:
        node = self._some()
        if not node.is_up or node.is_paused:
            return "nobody"
        node.pause()
        return f"{node.name} {self._then(node.resume)}"

    def _restart_all(self) -> str:
        fate = self._dice.random()
        if fate < 0.2:
            return " ".join(self._kill_one(node) for node in self._world.nodes.values())
        if fate < 0.3:
            return " ".join(self._stop_one(node) for node in self._world.nodes.values())
        return "not"

    # Links.

    def _cut(self) -> str:
        one, other = self._pair()
        return f"{one} {other} {self._split([one], [other])}"

    def _split(self, left: list[str], right: list[str]) -> str:
        world = self._world
        world.split(left, right)

        def mend() -> None:
            for one in left:
                for other in right:
                    world.mend(one, other)
                    world.mend(other, one)

        return self._then(mend)

    def _cut_one_way(self) -> str:
        one, other = self._pair()
        self._world.cut(one, other)
        return f"{one} to {other} {self._then(lambda: self._world.mend(one, other))}"

    def _isolate(self) -> str:
        node = self._some()
        others = [name for name in self._world.nodes if name != node.name]
        story = f"{node.name} {self._split([node.name], others)}"
        return f"{story}, store {self._cut_store(node)}" if self._dice.random() < 0.5 else story

    def _halve(self) -> str:
        sides: dict[bool, list[str]] = {True: [], False: []}
        for name in self._world.nodes:
            sides[self._dice.random() < 0.5].append(name)
        return f"{sides[True]} {sides[False]} {self._split(sides[True], sides[False])}"

    def _reset(self) -> str:
        one, other = self._pair()
        self._world.network.reset(one, other)
        return f"{one} and {other}"

    def _slow_link(self) -> str:
        one, other = self._pair()
        delay_us = self._dice.choice([20_000, 100_000, 400_000])
        network = self._world.network
        network.slow_down(one, other, delay_us)
        lasting = self._then(lambda: network.slow_down(one, other, 1_000))
        return f"{one} to {other} by {delay_us / 1_000} ms {lasting}"

    # The store.

    def _cut_store(self, node: SimNode) -> str:
        node.is_cut_from_store = True
        return self._then(node.mend_store)

    def _store_cut(self) -> str:
        node = self._some()
        return f"{node.name} {self._cut_store(node)}"

    def _store_outage(self) -> str:
        return " ".join(self._cut_store(node) for node in self._world.nodes.values())

    def _slow_store(self) -> str:
        delay_us = self._dice.choice([20_000, 200_000])
        self._world.store.delay_us_max = delay_us

        def recover() -> None:
            self._world.store.delay_us_max = 2_000

        return f"by {delay_us / 1_000} ms {self._then(recover)}"

    def _compact(self) -> str:
        self._world.store.compact()
        return ""

    # Disks, policies, clients.

    def _fill_disk(self) -> str:
        node = self._some()
        node.is_disk_full = True

        def empty() -> None:
            node.is_disk_full = False

        return f"{node.name} {self._then(empty)}"

    def _policy(self) -> str:
        names = sorted(self._world.nodes)
        mode = self._dice.choice(list(MirrorMode))
        mirroring = Mirroring(
            mode,
            count=self._dice.randint(1, len(names)),
            nodes=tuple(self._dice.sample(names, self._dice.randint(1, len(names)))),
            is_sync_automatic=self._dice.random() < 0.7,
            promotes_unsynced_on_failure=self._world.may_lose,
        )
        self._world.set_policy(mirroring)
        return str(mirroring)

    def _lose_consumers(self) -> str:
        node = self._some()
        node.do(lambda process: process.client.lose())
        return node.name

    def _purge(self) -> str:
        if self._dice.random() < 0.7:
            return "not"
        for node in self._world.nodes.values():
            node.do(lambda process: process.client.purge())
        return ""
