"""What a queue runs with: its arguments, its policy, and who wins where both speak.

Limits and times take the smaller of both. Where one must be chosen (dead-letter exchange and key,
overflow, mode) the argument wins: the application's author knew. Priorities, the single active
consumer and deduplication come from arguments alone, since they decide how the queue is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from warren.model.ages import age_ms
from warren.model.deduplication import CACHE_SIZE, CACHE_TTL
from warren.model.fields import Table
from warren.model.records import QueueRecord


class QueueType(Enum):
    CLASSIC = "classic"
    QUORUM = "quorum"
    STREAM = "stream"

    @property
    def module_name(self) -> str:
        """How RabbitMQ names the type in its error texts."""
        return f"rabbit_{self.value}_queue"


class Overflow(Enum):
    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """None means that the queue has no such limit, time or target."""

    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: Overflow = Overflow.DROP_HEAD
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    dead_letter_strategy: str | None = None
    max_priority: int | None = None
    single_active_consumer: bool = False
    queue_type: QueueType = QueueType.CLASSIC
    delivery_limit: int | None = None
    lazy: bool | None = None
    """None: nobody says. Such a queue is made a default one, and a running one stays as it is."""
    max_age_ms: int | None = None
    segment_bytes: int | None = None
    """Of streams alone, as is `max_age_ms`."""
    deduplicates: bool = False
    window_size: int | None = None
    window_ttl_ms: int | None = None
    """Of queues that deduplicate. With neither, an id counts while its message is in the queue."""

    @property
    def keeps_dead_letters(self) -> bool:
        """True if a message that died stays until it is safe elsewhere: at-least-once.

        Only a queue that refuses what is too much, and drops nothing, can promise that.
        """
        is_wanted = self.dead_letter_strategy == AT_LEAST_ONCE
        refuses = self.overflow is Overflow.REJECT_PUBLISH
        return is_wanted and refuses and self.dead_letter_exchange is not None

    @property
    def top_level(self) -> int | None:
        """The highest priority; None if all messages are kept in one backing."""
        if self.max_priority is None and self.deduplicates:
            return 0
        return self.max_priority


AT_LEAST_ONCE: Final = "at-least-once"
_NO_POLICY: Mapping[str, object] = {}
_NEVER: Final = 1 << 53


def settings_of(record: QueueRecord, policy: Mapping[str, object] = _NO_POLICY) -> QueueSettings:
    """`policy` is the effective policy definition: names without `x-`, plain values."""
    arguments = record.arguments
    return QueueSettings(
        message_ttl_ms=_smaller(arguments, policy, "message-ttl"),
        expires_ms=_smaller(arguments, policy, "expires"),
        max_length=_smaller(arguments, policy, "max-length"),
        max_length_bytes=_smaller(arguments, policy, "max-length-bytes"),
        overflow=Overflow(_argument_first(arguments, policy, "overflow") or Overflow.DROP_HEAD),
        dead_letter_exchange=_argument_first(arguments, policy, "dead-letter-exchange"),
        dead_letter_routing_key=_argument_first(arguments, policy, "dead-letter-routing-key"),
        dead_letter_strategy=_argument_first(arguments, policy, "dead-letter-strategy"),
        max_priority=_whole_number(arguments, "x-max-priority"),
        single_active_consumer=_is_true(arguments, "x-single-active-consumer"),
        queue_type=queue_type_of(arguments),
        delivery_limit=_smaller(arguments, policy, "delivery-limit"),
        lazy=_is_lazy(_argument_first(arguments, policy, "queue-mode")),
        max_age_ms=_smaller_age(arguments, policy, "max-age"),
        segment_bytes=_argument_or(arguments, policy, "stream-max-segment-size-bytes"),
        deduplicates=_is_true(arguments, "x-message-deduplication"),
        window_size=_whole_number(arguments, CACHE_SIZE),
        window_ttl_ms=_whole_number(arguments, CACHE_TTL),
    )


def queue_type_of(arguments: Table) -> QueueType:
    """Classic where nothing else is said."""
    return QueueType(_text(arguments, "x-queue-type") or QueueType.CLASSIC)


def _is_lazy(queue_mode: str | None) -> bool | None:
    return None if queue_mode is None else queue_mode == "lazy"


def _smaller(arguments: Table, policy: Mapping[str, object], name: str) -> int | None:
    ours = _whole_number(arguments, f"x-{name}")
    theirs = policy.get(name)
    if not isinstance(theirs, int):
        return ours
    # A policy may set any number; what nobody lives to see needs no more digits than a C integer.
    return min(theirs, _NEVER if ours is None else ours)


def _smaller_age(arguments: Table, policy: Mapping[str, object], name: str) -> int | None:
    ages = (_text(arguments, f"x-{name}"), policy.get(name))
    return min([age_ms(age) for age in ages if isinstance(age, str)], default=None)


def _argument_or(arguments: Table, policy: Mapping[str, object], name: str) -> int | None:
    ours = _whole_number(arguments, f"x-{name}")
    theirs = policy.get(name)
    return theirs if ours is None and isinstance(theirs, int) else ours


def _argument_first(arguments: Table, policy: Mapping[str, object], name: str) -> str | None:
    ours = _text(arguments, f"x-{name}")
    theirs = policy.get(name)
    return theirs if ours is None and isinstance(theirs, str) else ours


def _whole_number(arguments: Table, name: str) -> int | None:
    """Where RabbitMQ checks nothing (x-delivery-limit), what makes no sense means nothing."""
    field = arguments.get(name)
    if field is None or not field.is_integer or not isinstance(field.value, int):
        return None
    return field.value if field.value >= 0 else None


def _text(arguments: Table, name: str) -> str | None:
    field = arguments.get(name)
    if field is None or not isinstance(field.value, bytes):
        return None
    return field.value.decode(errors="replace")


def _is_true(arguments: Table, name: str) -> bool:
    field = arguments.get(name)
    return field is not None and field.value is True
