"""Hurts a cluster at random while clients change its topology, and looks what it has kept.

Three nodes, each in a network namespace of its own, and three members of etcd. Clients on all nodes
declare, bind and delete, add users and policies, publish with confirms and consume. In each round
nodes are killed, stopped, paused (up to 20 s), cut off or made unheard one way; then all is healed,
the clients rest, and within a bound all nodes must agree with etcd and with what clients were told
(`expectations`). Every third round only restarts etcd's members one by one: then no client may see
any error at all. In the end all queues are emptied and every confirmed message must have come.

The seed gives what is done and when; threads and processes do what they like, so a seed repeats a
run nearly and not exactly.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cluster_chaos.churn import Administrator, Declarer
from cluster_chaos.clients import ChaosClient
from cluster_chaos.comparing import dangling, differences, things_of_etcd
from cluster_chaos.expectations import Expectations
from cluster_chaos.faults import hurt, restart_members
from cluster_chaos.mail_clients import Consumer, Publisher
from cluster_chaos.talking import ANSWER_S_MAX, Talk
from cluster_chaos.world import ChaosNode, World
from warren.metadata.store import MetadataError

QUEUES: Final = tuple(f"mail-{i}" for i in range(6))
REST_S_MAX: Final = ANSWER_S_MAX + 30.0
AGREE_S_MAX: Final = 240.0
DRAIN_S_MAX: Final = 300.0
QUIET_S: Final = 3.0
CALM_EVERY: Final = 3


class ChaosFailed(AssertionError):
    """The cluster broke a promise; the text says which, and where to look."""


class Chaos:
    queues = QUEUES
    has_small_disks = False

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.seed = seed
        self.chance = random.Random(seed)
        self.expected = Expectations()
        self.world = World(directory, self.has_small_disks)
        self.rounds = 0
        self.is_slow_machine = False
        self.clients: list[ChaosClient] = []

    def run(self, seconds: float, round_s: float, rounds_max: int) -> None:
        print(f"seed {self.seed}, everything in {self.directory}", flush=True)
        deadline = time.monotonic() + seconds
        try:
            self.world.start()
            self._declare_mail_queues()
            self._make_clients()
            for client in self.clients:
                client.start()
            while self.rounds < rounds_max and time.monotonic() < deadline:
                self._round(min(round_s, max(5.0, deadline - time.monotonic())))
            self._drain()
        finally:
            for client in self.clients:
                client.join()
            self.world.stop()

    def summary(self) -> str:
        counts = ", ".join(f"{n} {what}" for what, n in sorted(self.expected.counts.items()))
        return f"seed {self.seed}: {self.rounds} rounds, nothing broken; {counts}"

    # Rounds.

    def _round(self, seconds: float) -> None:
        self.rounds += 1
        doings = self._begin_round(seconds)
        is_calm = self.expected.is_calm
        self._open_gates()
        sessions_lost = self._sessions_lost()
        began = time.monotonic()
        for done in doings:
            self._say(f"{time.monotonic() - began:6.1f} s: {done}")
            if not is_calm:
                self._require_kept()
        # Before they rest, since what they wait for still counts.
        self.world.await_ready()
        self._let_clients_rest()
        self.expected.is_calm = False
        if is_calm and self.is_slow_machine and self._sessions_lost() > sessions_lost:
            self._say("a session was lost: this machine is too slow to tell whose errors these are")
            self.expected.problems.clear()
        self._require_kept()
        self._await_agreement()
        self._say(f"round {self.rounds}: all agree; {dict(self.expected.counts)}")

    def _begin_round(self, seconds: float) -> Iterator[str]:
        """Does one thing after another, and says what."""
        self.expected.is_calm = self.rounds % CALM_EVERY == CALM_EVERY - 1
        if self.expected.is_calm:
            return restart_members(self.world, self.chance)
        return hurt(self.world, self.chance, seconds)

    def _open_gates(self) -> None:
        for client in self.clients:
            client.gate.open()

    def _sessions_lost(self) -> int:
        return sum(node.log().count(" node is down ") for node in self.world.nodes)

    def _let_clients_rest(self) -> None:
        for client in self.clients:
            client.gate.close()
        deadline = time.monotonic() + REST_S_MAX
        for client in self.clients:
            if not client.is_resting.wait(max(0.0, deadline - time.monotonic())):
                self.expected.complain(f"{client.name} at {client.node.name} does not rest")

    def _await_agreement(self) -> None:
        deadline = time.monotonic() + AGREE_S_MAX
        problems = self._disagreements()
        while problems and time.monotonic() < deadline:
            time.sleep(0.5)
            problems = self._disagreements()
        for problem in problems:
            self.expected.complain(f"after {AGREE_S_MAX:g} s: {problem}")
        self._require_kept()

    def _disagreements(self) -> list[str]:
        try:
            differing = differences(self.world)
            stored = things_of_etcd(self.world)
        except (OSError, MetadataError) as error:
            return [f"a node or etcd does not answer: {error}"]
        return [*differing, *self.expected.broken(stored), *dangling(stored)]

    def _require_kept(self) -> None:
        for node in self.world.nodes:
            log = node.log()
            if "Traceback" in log:
                at = log.index("Traceback")
                self.expected.complain(f"{node.name} logged: {log[max(0, at - 300) : at + 2500]}")
        if self.expected.problems:
            details = "\n".join(self.expected.problems)
            raise ChaosFailed(
                f"round {self.rounds}, seed {self.seed}, logs in {self.directory}\n{details}"
            )

    # Clients.

    def _declare_mail_queues(self) -> None:
        for number, queue in enumerate(QUEUES):
            talk = Talk(self._node(number).amqp)
            talk.ask("queue.declare", queue=queue, durable=True)
            talk.close()

    def _node(self, number: int) -> ChaosNode:
        return self.world.nodes[number % len(self.world.nodes)]

    def _make_clients(self) -> None:
        for number in range(len(self.world.nodes)):
            home_first = [self._node(number)]
            self._add(Declarer, f"declarer{number}", home_first)
            self._add(Declarer, f"wanderer{number}", self.world.nodes)
            publisher = self._add(Publisher, f"publisher{number}", home_first)
            consumer = self._add(Consumer, f"consumer{number}", self.world.nodes)
            publisher.queues = QUEUES  # type: ignore[attr-defined]
            consumer.queues = QUEUES[2 * number : 2 * number + 2]  # type: ignore[attr-defined]
        self._add(Administrator, "administrator", self.world.nodes)

    def _add(self, kind: type[ChaosClient], name: str, nodes: list[ChaosNode]) -> ChaosClient:
        dice = random.Random(self.chance.getrandbits(64))
        client = kind(name, nodes, self.expected, dice)
        self.clients.append(client)
        return client

    def _drain(self) -> None:
        """Take all that is left: what was confirmed must be among it, or have come before."""
        consumers = [client for client in self.clients if isinstance(client, Consumer)]
        for consumer in consumers:
            consumer.hurry = True
            consumer.gate.open()
        deadline = time.monotonic() + DRAIN_S_MAX
        while self.expected.missing() and time.monotonic() < deadline:
            time.sleep(0.2)
        received, quiet_since = -1, time.monotonic()
        while time.monotonic() - quiet_since < QUIET_S and time.monotonic() < deadline:
            if self.expected.counts["received"] != received:
                received, quiet_since = self.expected.counts["received"], time.monotonic()
            time.sleep(0.2)
        missing = self.expected.missing()
        if missing:
            self.expected.complain(f"{len(missing)} confirmed messages are lost: {missing[:8]}")
            self.expected.complain(f"what nodes say of the queues: {self._queues_as_told()}")
        self._require_kept()

    def _queues_as_told(self) -> list[tuple[object, ...]]:
        """For whoever has to find out: are the messages there, and who has them?"""
        queues = self.world.nodes[0].ask("/api/queues")
        facts = ("name", "node", "messages_ready", "messages_unacknowledged", "consumers")
        return [tuple(q.get(f) for f in facts) for q in queues if q["name"] in self.queues]

    def _say(self, what: str) -> None:
        print(what, flush=True)
