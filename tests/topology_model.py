"""What declares, binds and deletes amount to, in the plainest way, to compare the broker with.

An operation is a list of words, so that it can be written down by one process and read by another.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TypeAlias

from topology_samples import binding, exchange, queue, to_exchange
from warren.broker.predeclared import predeclared_exchanges
from warren.broker.vhost import VirtualHost
from warren.model.records import BindingRecord, DestinationKind

Operation: TypeAlias = list[str]

PREDECLARED = {record.name for record in predeclared_exchanges("/")}


@dataclass
class TopologyModel:
    exchanges: set[str] = field(default_factory=set)
    queues: set[str] = field(default_factory=set)
    bindings: set[tuple[str, str, str]] = field(default_factory=set)
    """Source, destination (with `x:` in front if it is an exchange), routing key."""

    def apply(self, operation: Operation) -> None:
        match operation:
            case ["declare exchange", name]:
                self.exchanges.add(name)
            case ["declare queue", name]:
                self.queues.add(name)
            case ["bind", source, destination, key]:
                self.bindings.add((source, destination, key))
            case ["unbind", source, destination, key]:
                self._drop({(source, destination, key)})
            case ["delete queue", name]:
                self.queues.discard(name)
                self._drop({each for each in self.bindings if each[1] == name})
            case ["delete exchange", name]:
                self._delete_exchange(name)
            case _:
                raise ValueError(operation)

    def _delete_exchange(self, name: str) -> None:
        self.exchanges.discard(name)
        self._drop({each for each in self.bindings if name == each[0] or each[1] == f"x:{name}"})

    def _drop(self, gone: set[tuple[str, str, str]]) -> None:
        self.bindings -= gone
        still_used = {source for source, _, _ in self.bindings}
        for name in {source for source, _, _ in gone} & self.exchanges - still_used:
            if is_auto_delete(name):
                self._delete_exchange(name)

    def choose(self, dice: random.Random, prefix: str) -> Operation:
        """Something that can be done now, with names that begin with the prefix."""
        name = f"{prefix}{dice.randrange(4)}"
        bound = sorted(self.bindings)
        ends = sorted(self.queues) + [f"x:{each}" for each in sorted(self.exchanges)]
        sources = ["amq.topic", *sorted(self.exchanges)]
        choices: list[Operation] = [
            ["declare queue", name],
            ["declare exchange", dice.choice(["auto-", ""]) + name],
            ["delete queue", name],
            ["delete exchange", dice.choice(["auto-", ""]) + name],
        ]
        if ends:
            key = dice.choice("ab")
            choices += [["bind", dice.choice(sources), dice.choice(ends), key]] * 6
        if bound:
            choices += [["unbind", *dice.choice(bound)]] * 3
        return dice.choice(choices)


def is_auto_delete(exchange_name: str) -> bool:
    return exchange_name.startswith("auto-")


async def perform(vhost: VirtualHost, operation: Operation) -> None:
    """Do to a virtual host what `TopologyModel.apply` does to a model; all of it durable."""
    match operation:
        case ["declare exchange", name]:
            record = exchange(name, "topic", auto_delete=is_auto_delete(name))
            await vhost.declare_exchange(record)
        case ["declare queue", name]:
            await vhost.declare_queue(queue(name), False, "c")
        case ["bind", source, destination, key]:
            await vhost.bind(_binding(source, destination, key), "c")
        case ["unbind", source, destination, key]:
            await vhost.unbind(_binding(source, destination, key), "c")
        case ["delete queue", name]:
            await vhost.delete_queue(name, False, False, "c")
        case ["delete exchange", name]:
            await vhost.delete_exchange(name)


def model_of(vhost: VirtualHost) -> TopologyModel:
    return TopologyModel(
        set(vhost.exchanges) - PREDECLARED,
        set(vhost.queues),
        {plain_binding(each) for each in vhost.bindings.all()},
    )


def plain_binding(record: BindingRecord) -> tuple[str, str, str]:
    is_exchange = record.destination.kind is DestinationKind.EXCHANGE
    destination = f"x:{record.destination.name}" if is_exchange else record.destination.name
    return record.source, destination, record.routing_key


def _binding(source: str, destination: str, key: str) -> BindingRecord:
    if destination.startswith("x:"):
        return binding(source, to_exchange(destination[2:]), key)
    return binding(source, destination, key)
