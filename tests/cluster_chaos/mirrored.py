"""Chaos with mirrored queues: other harm, and one expectation more.

    scripts/chaos --mirrored --minutes 10 [--seed 1] [--only kill,halves] [--steady]

Queues have copies on all nodes or on two, one has priorities, one is lazy, two are quorum queues,
three are left to fill.
Each round does one kind of harm (`harms`), until all have had their turn; then they are shuffled
again. When a round is over all copies have to be there and in sync. With `--steady` there is one
queue with a backlog, four publishers at 250 messages a second and four consumers that acknowledge
nine tenths of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, cast

from cluster_chaos.chaos import Chaos
from cluster_chaos.copies import (
    ARGUMENTS,
    KEPT,
    POLICIES,
    QUEUES,
    lacking,
    misunderstandings,
)
from cluster_chaos.harms import HARMS, NO_NACKS
from cluster_chaos.mail_clients import Consumer, Emptier, Publisher
from cluster_chaos.steady_clients import SlowConsumer, SteadyPublisher
from cluster_chaos.talking import Talk
from warren.metadata.store import MetadataError

EMPTY_EVERY: Final = 3
UNSETTLED: Final = 5
STEADY_QUEUE: Final = "all-0"
STEADY_CLIENTS: Final = 4
PRIORITISED: Final = tuple(q for q, given in ARGUMENTS.items() if "x-max-priority" in given)


class MirroredChaos(Chaos):
    queues = QUEUES
    has_small_disks = True

    def __init__(self, directory: Path, seed: int, only: Sequence[str] = ()) -> None:
        super().__init__(directory, seed)
        self.is_late = False
        self.is_steady = False
        self._kinds = list(only or HARMS)
        self._is_shuffled = not only
        self._to_come: list[str] = []

    def _begin_round(self, seconds: float) -> Iterator[str]:
        if not self._to_come:
            self._to_come = self.chance.sample(self._kinds, len(self._kinds)) if (
                self._is_shuffled
            ) else [*self._kinds]  # fmt: skip
        kind = self._to_come.pop(0)
        self.expected.count(f"round of {kind}")
        # On a slow machine another node than the one that is hurt may lose its session, too.
        self.expected.may_nack = kind not in NO_NACKS or self.is_slow_machine
        return HARMS[kind](self.world, self.chance, seconds)

    def _declare_mail_queues(self) -> None:
        for name, definition in POLICIES.items():
            body = {"pattern": f"^{name}-", "definition": definition, "apply-to": "queues"}
            self.world.nodes[0].ask(f"/api/policies/%2F/{name}", "PUT", body)
        for number, queue in enumerate(QUEUES):
            talk = Talk(self._node(number).amqp)
            arguments = ARGUMENTS.get(queue, {})
            talk.ask("queue.declare", queue=queue, durable=True, arguments=arguments)
            talk.close()

    def _make_clients(self) -> None:
        if self.is_steady:
            self._make_steady_clients()
        else:
            self._make_random_clients()

    def _make_steady_clients(self) -> None:
        for number in range(STEADY_CLIENTS):
            nodes = [self._node(number), self._node(number + 1)]
            publisher = cast(Publisher, self._add(SteadyPublisher, f"publisher{number}", nodes))
            consumer = cast(Consumer, self._add(SlowConsumer, f"consumer{number}", nodes))
            publisher.queues = consumer.queues = (STEADY_QUEUE,)

    def _make_random_clients(self) -> None:
        consumed = [queue for queue in QUEUES if queue not in KEPT]
        for number in range(len(self.world.nodes)):
            for name, nodes in (("publisher", [self._node(number)]), ("nomad", self.world.nodes)):
                publisher = cast(Publisher, self._add(Publisher, f"{name}{number}", nodes))
                publisher.queues, publisher.kept = tuple(consumed), KEPT
                publisher.prioritised = PRIORITISED
            consumer = cast(Consumer, self._add(Consumer, f"consumer{number}", self.world.nodes))
            consumer.queues = tuple(self.chance.sample(consumed, 2))
        everything = cast(Consumer, self._add(Consumer, "omnivore", self.world.nodes))
        everything.queues = tuple(consumed)
        emptier = cast(Emptier, self._add(Emptier, "emptier", self.world.nodes))
        emptier.queues = KEPT

        for client in self.clients:
            if isinstance(client, Consumer) and self.is_late:
                client.unsettled = UNSETTLED

    def _open_gates(self) -> None:
        super()._open_gates()
        is_emptying = self.rounds % EMPTY_EVERY == 0
        for client in self.clients:
            if isinstance(client, Emptier) and not is_emptying:
                client.gate.close()
            elif isinstance(client, Publisher) and is_emptying:
                client.kept_so_far = 0

    def _disagreements(self) -> list[str]:
        try:
            return [*lacking(self.world), *misunderstandings(self.world), *super()._disagreements()]
        except (OSError, MetadataError) as error:
            return [f"a node or etcd does not answer: {error}"]
