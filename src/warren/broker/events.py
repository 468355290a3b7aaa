"""What happens in a broker, told by name to whoever listens: logs, figures, the event exchange.

Names and properties are those of RabbitMQ's event exchange (`queue.created`, `connection.closed`).
An event is put together only if somebody wants to hear of it at that moment, so telling costs next
to nothing.

Whoever acts for a user says so once, in `ACTING_USER`, and everything told on the way is told as
done by that user: the operations in between need not pass the name along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from warren.model.clock import Clock
from warren.model.erlang import render_text_binary, render_value
from warren.model.fields import Table
from warren.model.json_terms import JsonValue

# Who has done what nobody asked for.
INTERNAL_USER: Final = "rmq-internal"
ACTING_USER: Final[ContextVar[str]] = ContextVar("acting_user", default=INTERNAL_USER)
NOBODY: Final = ""

Properties: TypeAlias = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    at_ms: int
    properties: Properties


class EventListener(Protocol):
    def wants(self, name: str) -> bool:
        """Whether it wants to hear of such events now."""
        ...

    def hear(self, event: Event) -> None:
        """Must not change what the event is about: others are in the middle of it."""
        ...


class EventBus:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.listeners: list[EventListener] = []
        self.node_name = ""

    def wants(self, name: str) -> bool:
        """Whether anybody does."""
        return any(each.wants(name) for each in self.listeners)

    def tell(self, name: str, describe: Callable[[], Properties], by: str | None = None) -> None:
        """`by` is who did it, if not the acting user; NOBODY if that is no part of the event."""
        listening = [each for each in self.listeners if each.wants(name)]
        if not listening:
            return
        user = ACTING_USER.get() if by is None else by
        doer = {"user_who_performed_action": user} if user != NOBODY else {}
        event = Event(name, self._clock.now_ms(), {**doer, **describe()})
        for listener in listening:
            listener.hear(event)


def shown_arguments(arguments: Table) -> list[JsonValue]:
    """A table as events show it: each item an Erlang term, as text."""
    return [
        f"{{{render_text_binary(name.encode())},{field.type_name},{render_value(field.value)}}}"
        for name, field in arguments
    ]
