"""A world: a cluster's nodes, the network between them, a store, clients, and what can be done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from cluster_simulation.network import Network
from cluster_simulation.node import SimNode
from cluster_simulation.process import Process
from cluster_simulation.store import EtcdLike
from cluster_simulation.witness import Witness
from gm_invariants import Violation
from support.schedule import Schedule
from warren.auth.codec import encode_vhost
from warren.auth.users import Vhost
from warren.cluster.chosen_nodes import encode_chosen
from warren.cluster.sessions import SESSION_TTL_S
from warren.cluster.story import Entry
from warren.metadata.codec import encode_record
from warren.metadata.keys import (
    chosen_nodes_key,
    group_key,
    policy_key,
    queue_key,
    vhost_key,
)
from warren.metadata.policy_codec import encode_policy
from warren.metadata.store import Delete, Put
from warren.model.fields import Field, Table
from warren.model.json_terms import JsonValue
from warren.model.records import Policy, QueueName, QueueRecord
from warren.policy.wanted_copies import Mirroring, MirrorMode
from warren.queues.boundary import AbstractQueue
from warren.replication.group_record import GroupRecord, QueueState, decode_record

STEPS_MAX: Final = 2_000_000
REST_US_MAX: Final = 60_000_000
"""How long a cluster may take to come to rest."""
EVERYWHERE: Final = Mirroring(
    MirrorMode.ALL, is_sync_automatic=True, promotes_unsynced_on_failure=False
)
HOME: Final = "a"
"""The node on which the queue is declared."""

logging.getLogger("warren").setLevel(logging.CRITICAL + 1)


class World:
    def __init__(self, seed: int, nodes: int = 3) -> None:
        self.schedule = Schedule(seed)
        self.witness = Witness(self)
        self.store = EtcdLike(self.schedule, self.witness.stored)
        self.network = Network(self.schedule)
        self.queue_name: QueueName = ("/", "q")
        self.mirroring = EVERYWHERE
        self.is_lazy = False
        self.is_quorum = False
        """The queue is a quorum queue: nodes are chosen for it, and no policy mirrors it."""
        self.is_declared_late = False
        """The queue is declared by a client while nodes run, not there from the beginning."""
        self.max_priority: int | None = None
        self.transient_chance = 0.0
        self.consumers: list[tuple[int, bool]] = [(10, False)]
        """Prefetch and no-ack of each consumer of a client."""
        self.consumer_us_max = 200_000
        self.is_peaceful = False
        self.published = 0
        self.nodes = {name: SimNode(self, name) for name in "abcdefg"[:nodes]}
        self._numbers = 0

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    @property
    def may_lose(self) -> bool:
        return self.mirroring.promotes_unsynced_on_failure

    def start(self) -> None:
        arguments = Table()
        if self.max_priority is not None:
            arguments = Table([("x-max-priority", Field("B", self.max_priority))])
        if self.is_quorum:
            size = Field("I", len(self.nodes))
            kind = Field("S", b"quorum")
            arguments = Table([("x-queue-type", kind), ("x-quorum-initial-group-size", size)])
        self._declared = QueueRecord(*self.queue_name, arguments=arguments, node=HOME)
        self._put(vhost_key("/"), encode_vhost(Vhost("/")))
        if not self.is_declared_late:
            self._put(queue_key(*self.queue_name), encode_record(self._declared))
        self.set_policy(self.mirroring)
        for node in self.nodes.values():
            node.start()

    def declare_late(self) -> None:
        """Have a client of some node declare the queue, unless it is there: with all its copies."""
        if queue_key(*self.queue_name) in self.store.records:
            return
        running = [p for p in self.processes if p.has_session and not p.loop.is_paused]
        if running:
            self.schedule.random.choice(running).declare(self._declared)

    def set_policy(self, mirroring: Mirroring) -> None:
        if self.is_quorum:
            self._choose_nodes(mirroring)
            return
        self.mirroring = mirroring
        definition = definition_of(mirroring)
        if self.is_lazy:
            definition["queue-mode"] = "lazy"
        self._put(policy_key("/", "ha"), encode_policy(Policy("/", "ha", "^q$", definition)))

    def _choose_nodes(self, mirroring: Mirroring) -> None:
        """As `grow` and `shrink` do: those that such a policy would have copies on."""
        key = chosen_nodes_key(*self.queue_name)
        if mirroring.mode is MirrorMode.ALL:
            self.store.commit([], [Delete(key)])
            return
        fixed = mirroring.mode is MirrorMode.NODES
        nodes = mirroring.nodes if fixed else sorted(self.nodes)[: mirroring.count]
        self._put(key, encode_chosen(nodes))

    def _put(self, key: str, value: bytes) -> None:
        self.store.commit([], [Put(key, value)])

    def every(self, interval_us: int, do: Callable[[], object]) -> None:
        def again() -> None:
            do()
            self.schedule.after(interval_us, again)

        self.schedule.after(interval_us, again)

    def run(self, duration_us: int) -> None:
        self.schedule.run(STEPS_MAX, self.schedule.now_us + duration_us)

    # What is seen.

    @property
    def record(self) -> GroupRecord | None:
        stored = self.store.records.get(group_key(*self.queue_name))
        return None if stored is None else decode_record(stored.value)

    @property
    def processes(self) -> list[Process]:
        return [node.process for node in self.nodes.values() if node.process is not None]

    def queue_at(self, process: Process) -> AbstractQueue | None:
        vhost = process.broker.vhosts.get(self.queue_name[0])
        return None if vhost is None else vhost.queues.get(self.queue_name[1])

    def stories(self) -> str:
        """What each node has to tell of the queue."""
        told = []
        for process in self.processes:
            entries = process.machine.stories.of(self.queue_name)
            told += [f"{process.name} {_in_short(entry)}" for entry in entries]
        return "\n".join(told)

    # Links.

    def cut(self, source: str, target: str) -> None:
        self.network.cut(source, target)

    def mend(self, source: str, target: str) -> None:
        self.network.mend(source, target)

    def split(self, left: Iterable[str], right: Iterable[str]) -> None:
        for one in left:
            for other in right:
                self.cut(one, other)
                self.cut(other, one)

    def mend_links(self) -> None:
        self.network.mend_all()

    # The store.

    def store_goes_down(self) -> None:
        self.store.go_down()

    def store_comes_back(self) -> None:
        self.store.come_back(SESSION_TTL_S)
        for process in self.processes:
            process.store.news()

    # Peace.

    def make_peace(self) -> None:
        self.is_peaceful = True
        self.set_policy(replace(EVERYWHERE, promotes_unsynced_on_failure=self.may_lose))
        self.store.delay_us_max = 2_000
        if self.store.is_down:
            self.store_comes_back()
        self.mend_links()
        for node in self.nodes.values():
            node.is_disk_full = False
            node.mend_store()
            if not node.is_up:
                node.start()
            elif node.is_paused:
                node.resume()
            self._calm(node)

    def _calm(self, node: SimNode) -> None:
        """No more consumers, and the node is in service."""
        process = node.process
        if process is not None:
            process.client.is_consuming = False
            process.client.lose()
            process.loop.run(process.drain, False)

    def come_to_rest(self) -> None:
        """Until all copies are in sync and nothing is under way."""
        ends_us = self.schedule.now_us + REST_US_MAX
        while reason := self.unrest():
            if self.schedule.now_us > ends_us:
                raise Violation(f"no rest: {reason}")
            self.run(100_000)
            for node in self.nodes.values():
                if not node.is_up:
                    node.start()  # it was about to stop when peace came
                    self._calm(node)
                elif node.process is not None and node.process.client.is_consuming:
                    self._calm(node)

    def unrest(self) -> str:
        """What is still to be done; empty if nothing is."""
        record = self.record
        for name, node in self.nodes.items():
            process = node.process
            host = None if process is None else process.machine.replicas.get(self.queue_name)
            if record is None or process is None or host is None:
                return f"{name} has no part in the queue: {record}"
            if not record.is_live(host.replica.me.id) or process.is_stopping:
                return f"{name} is no member: {record}"
            if host.replica.me.id not in record.insync:
                return f"{name} is not in sync: {record}"
            if host.replica.record != record:
                return f"{name} has another record: {host.replica.record}, stored is {record}"
            if process.client.unanswered:
                return f"{process.client.unanswered} publishes of {name} have no answer: {record}"
            if process.client.unacked:
                return f"consumers of {name} have {process.client.unacked} messages"
            master = host.replica.master
            if master is None:
                continue
            if not master.outbox.is_empty or master.unacked:
                return f"{name} has something to tell its mirrors"
            if any(master.held_by.get(each, -1) < master.number for each in master.in_sync):
                return f"mirrors hold {master.held_by}, and there is {master.number}"
        return ""


def _in_short(entry: Entry) -> str:
    """Tell an entry of a story in a line; records of groups are long."""
    facts = [_brief(each) if isinstance(each, GroupRecord) else str(each) for each in entry.facts]
    return f"{entry.at_ms} ms: {entry.what} {' '.join(facts)}".rstrip()


def _brief(record: GroupRecord) -> str:
    members = " ".join(f"{m.id}{'(dead)' if m.is_dead else ''}" for m in record.members)
    waits = "" if record.state is QueueState.LIVE else f", {record.state.value}"
    return (
        f"[epoch {record.epoch}, view {record.view}, leader {record.leader}, members {members}, "
        f"in sync {' '.join(record.insync)}, recoverable {' '.join(record.recoverable)}{waits}]"
    )


def definition_of(mirroring: Mirroring) -> dict[str, JsonValue]:
    definition: dict[str, JsonValue] = {
        "ha-mode": mirroring.mode.value,
        "ha-sync-mode": "automatic" if mirroring.is_sync_automatic else "manual",
        "ha-promote-on-failure": (
            "always" if mirroring.promotes_unsynced_on_failure else "when-synced"
        ),
    }
    if mirroring.mode is MirrorMode.EXACTLY:
        definition["ha-params"] = mirroring.count
    elif mirroring.mode is MirrorMode.NODES:
        definition["ha-params"] = list(mirroring.nodes)
    return definition
