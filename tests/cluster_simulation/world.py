"""A cluster: nodes, the links between them, a store, clients, and what can be done to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from cluster_simulation.node import LOOK_US, SimNode
from cluster_simulation.publishers import Publishers
from cluster_simulation.store import ClusterStore
from cluster_simulation.witness import Witness
from gm_invariants import Violation
from support.network import Network
from support.schedule import Schedule
from warren.policy.wanted_copies import Mirroring, MirrorMode

STEPS_MAX: Final = 2_000_000
NOTICE_US: Final = 100_000
"""The longest that it takes to notice that a link is broken."""
SEND_AGAIN_US: Final = 100_000
REST_US_MAX: Final = 20_000_000
"""How long a cluster may take to come to rest."""
EVERYWHERE: Final = Mirroring(
    MirrorMode.ALL, is_sync_automatic=True, promotes_unsynced_on_failure=False
)


class World:
    def __init__(self, seed: int, nodes: int = 3) -> None:
        self.schedule = Schedule(seed)
        self.witness = Witness(self)
        self.publishers = Publishers(self)
        self.store = ClusterStore(self.schedule, self.witness)
        self.network = Network(self.schedule, self._arrive, lambda *_: None, self._link_is_up)
        self.mirroring = EVERYWHERE
        self.kept_count = 0
        """Messages that mirrors had when they came back, and did not have to be sent."""
        self.max_priority: int | None = None
        self.transient_chance = 0.0
        self.is_peaceful = False
        self.cuts: set[tuple[str, str]] = set()
        self.nodes = {name: SimNode(self, name) for name in "abcdefg"[:nodes]}
        self.store.nodes = self.nodes

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()
        self.every(LOOK_US, self._look_after_copies)
        self.every(SEND_AGAIN_US, self._send_again)

    def every(self, interval_us: int, do: Callable[[], object]) -> None:
        def again() -> None:
            do()
            self.schedule.after(interval_us, again)

        self.schedule.after(interval_us, again)

    def run(self, duration_us: int) -> None:
        self.schedule.run(STEPS_MAX, self.schedule.now_us + duration_us)

    def _look_after_copies(self) -> None:
        for node in self.nodes.values():
            node.look_after_copies()

    def _send_again(self) -> None:
        for node in self.nodes.values():
            self.publishers.send_again(node)

    # Links.

    def _arrive(self, source: str, target: str, message: Any) -> None:
        node = self.nodes[target]
        if node.is_up:
            node.when_running(lambda: message(node))

    def is_linked(self, source: str, target: str) -> bool:
        is_cut = (source, target) in self.cuts
        return not is_cut and self.nodes[source].is_up and self.nodes[target].is_up

    def cut(self, source: str, target: str) -> None:
        if (source, target) not in self.cuts:
            self.cuts.add((source, target))
            self.network.cut(source, target, is_noticed=False)
            self._notice(source, target)

    def mend(self, source: str, target: str) -> None:
        if (source, target) in self.cuts:
            self.cuts.discard((source, target))
            self.network.mend(source, target)

    def reset(self, source: str, target: str) -> None:
        self.network.reset(source, target, is_noticed=False)
        self._notice(source, target)

    def _notice(self, source: str, target: str) -> None:
        """What was sent may not have arrived; sooner or later the sender knows."""
        node = self.nodes[source]
        self.schedule.soon(
            NOTICE_US, lambda: node.when_running(lambda: self._tell_link(source, target))
        )

    def _tell_link(self, source: str, target: str) -> None:
        node = self.nodes[source]
        node.link_changed(target, False)
        if self.is_linked(source, target):
            node.link_changed(target, True)

    def _link_is_up(self, source: str, target: str) -> None:
        """Something was lost before, and is not any more."""
        node = self.nodes[source]
        if self.is_linked(source, target):
            node.when_running(lambda: self._tell_link(source, target))

    def mourn(self, name: str) -> None:
        """The node is dead, and all of its links."""
        for other in self.nodes:
            if other != name:
                self.reset(other, name)
                self.reset(name, other)

    def greet(self, name: str) -> None:
        """The node is there (again): others link to it."""
        for other in self.nodes:
            if other != name:
                self.reset(other, name)

    def split(self, left: Iterable[str], right: Iterable[str]) -> None:
        for one in left:
            for other in right:
                self.cut(one, other)
                self.cut(other, one)

    def mend_links(self) -> None:
        for source, target in tuple(self.cuts):
            self.mend(source, target)
        self.network.mend_all()

    # Clients.

    def consume(self, needs_ack: bool = True) -> None:
        for node in self.nodes.values():
            if node.copy is not None:
                node.copy.deliver(needs_ack)

    # Peace.

    def make_peace(self) -> None:
        self.is_peaceful = True
        may_lose = self.mirroring.promotes_unsynced_on_failure
        self.mirroring = replace(EVERYWHERE, promotes_unsynced_on_failure=may_lose)
        self.store.slow_down(2_000)
        self.mend_links()
        for node in self.nodes.values():
            node.is_disk_full = False
            node.mend_store()
            if not node.is_up:
                node.start()
            elif node.is_paused:
                node.resume()
            if node.copy is not None:
                node.copy.lose_consumers()

    def come_to_rest(self) -> None:
        """Until all copies are in sync and nothing is under way."""
        ends_us = self.schedule.now_us + REST_US_MAX
        while reason := self.unrest():
            if self.schedule.now_us > ends_us:
                raise Violation(f"no rest: {reason}")
            self.run(100_000)

    def unrest(self) -> str:
        """What is still to be done; empty if nothing is."""
        record = self.store.value
        for name, node in self.nodes.items():
            copy = node.copy
            if record is None or copy is None or not record.is_live(copy.replica.me.id):
                return f"{name} has no part in the queue: {record}"
            if copy.replica.me.id not in record.insync:
                return f"{name} is not in sync: {record}"
            if copy.replica.record != record:
                return f"{name} has another record: {copy.replica.record}, stored is {record}"
            waiting = len(self.publishers.of(node).unanswered)
            if waiting:
                return f"{waiting} publishes of {name} have no answer: {record}"
            if copy.outstanding:
                return f"consumers have {sorted(copy.outstanding)}"
            master = copy.replica.master
            if master is not None and not master.outbox.is_empty:
                return f"{name} has something to tell its mirrors"
            if master is not None and any(
                master.held_by.get(member, -1) < master.number for member in master.in_sync
            ):
                return f"mirrors hold {master.held_by}, and there is {master.number}"
        return ""
