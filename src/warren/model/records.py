"""What the broker knows of its topology: immutable records, as declared.

Records are what is stored, compared and exported; the living objects (an `Exchange` that routes,
a `Queue` that holds messages) are built from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from warren.model.fields import EMPTY_TABLE, Table
from warren.model.json_terms import JsonValue

QueueName: TypeAlias = tuple[str, str]
"""A virtual host, and the name of a queue in it."""


class DestinationKind(Enum):
    # Each member exists once. Enum would hash its name, by a call, for every key of a binding.
    __hash__ = object.__hash__

    QUEUE = "queue"
    EXCHANGE = "exchange"


@dataclass(frozen=True, slots=True)
class ExchangeRecord:
    vhost: str
    name: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Table = EMPTY_TABLE
    created_by: str = ""

    def __str__(self) -> str:
        return describe_exchange(self.name, self.vhost)


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """`owner` is the id of the connection an exclusive queue belongs to, else None."""

    vhost: str
    name: str
    durable: bool = True
    auto_delete: bool = False
    owner: str | None = None
    arguments: Table = EMPTY_TABLE
    created_by: str = ""
    node: str = ""
    """Node on which the queue was declared, and has its master unless it is mirrored.

    Empty where there is only one node.
    """

    @property
    def exclusive(self) -> bool:
        return self.owner is not None

    def __str__(self) -> str:
        return describe_queue(self.name, self.vhost)


@dataclass(frozen=True, slots=True)
class Destination:
    kind: DestinationKind
    name: str


@dataclass(frozen=True, slots=True)
class BindingRecord:
    """A binding's identity is all of its fields."""

    vhost: str
    source: str
    destination: Destination
    routing_key: str
    arguments: Table = EMPTY_TABLE


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings for all queues or exchanges whose name has the pattern in it."""

    vhost: str
    name: str
    pattern: str
    definition: Mapping[str, JsonValue]
    priority: int | float = 0
    apply_to: str = "all"

    def terms(self) -> dict[str, JsonValue]:
        """All but where it belongs and its name, as RabbitMQ keeps a policy."""
        return {
            "pattern": self.pattern,
            "definition": self.definition,
            "priority": self.priority,
            "apply-to": self.apply_to,
        }


def describe_queue(name: str, vhost: str) -> str:
    return f"queue '{name}' in vhost '{vhost}'"


def describe_exchange(name: str, vhost: str) -> str:
    return f"exchange '{name}' in vhost '{vhost}'"
