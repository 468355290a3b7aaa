"""Arguments of queue.declare and basic.consume: which are known, what they may be, what differs.

A queue's type decides which arguments it knows. Known ones are checked for type and value, in
RabbitMQ's order, since the first mistake found is the one reported. One that only another type
knows is refused. Any other name is the application's own: stored, shown, never looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from warren.model.deduplication import CACHE_SIZE, CACHE_TTL
from warren.model.equivalence import name_argument, require_same, require_same_arguments
from warren.model.errors import SoftError, precondition_failed
from warren.model.fields import Field, Table
from warren.model.limits import STREAM_SEGMENT_BYTES_MAX
from warren.model.records import QueueRecord
from warren.queues.argument_checks import (
    DEAD_LETTER_EXCHANGE,
    Validator,
    check_boolean,
    check_dead_letter_key,
    check_expires,
    check_integer,
    check_max_age,
    check_max_priority,
    check_not_negative,
    check_positive,
    check_queue_version,
    check_stream_offset,
    check_text,
    check_ttl,
    one_of,
    supported,
)
from warren.queues.settings import (
    Overflow,
    QueueSettings,
    QueueType,
    queue_type_of,
    settings_of,
)

__all__ = [
    "QUEUE_TYPE",
    "Overflow",
    "QueueSettings",
    "QueueType",
    "consumer_priority",
    "dead_letter_exchange_of",
    "may_default_to",
    "queue_type_of",
    "require_same_queue",
    "require_server_name_allowed",
    "settings_of",
    "validate_consumer_arguments",
    "validate_queue",
]

QUEUE_TYPE: Final = "x-queue-type"
_SEGMENT_SIZE: Final = "x-stream-max-segment-size-bytes"


def validate_queue(record: QueueRecord) -> None:
    """Refuse a queue that is about to be created, if its arguments or flags make no sense."""
    dead_letter_exchange_of(record)
    arguments = record.arguments
    _check_values(record, arguments, {QUEUE_TYPE: _check_queue_type}, (QUEUE_TYPE,))
    queue_type = queue_type_of(arguments)
    _check_values(record, arguments, _DECLARE_VALIDATORS, _QUEUE_ARGUMENTS[queue_type])
    _check_names(record, arguments, queue_type, _QUEUE_ARGUMENTS)
    if queue_type is not QueueType.CLASSIC:
        _require_replicable(record)


def dead_letter_exchange_of(record: QueueRecord) -> str | None:
    """The dead-letter exchange a new queue asks for; raises if the argument is no name."""
    return name_argument(str(record), record.arguments, DEAD_LETTER_EXCHANGE)


def require_server_name_allowed(arguments: Table) -> None:
    """Only classic queues may be given a name by the server."""
    field = arguments.get(QUEUE_TYPE)
    for queue_type in (QueueType.QUORUM, QueueType.STREAM):
        if field is not None and field.value == queue_type.value.encode():
            raise precondition_failed(
                f"Cannot declare a server-named queue for type {queue_type.module_name}"
            )


def may_default_to(kind: str, record: QueueRecord) -> bool:
    """True if a queue declared without a type may be of this one, which is not the classic one."""
    if kind not in (QueueType.QUORUM.value, QueueType.STREAM.value):
        return False
    is_plain = record.durable and not record.exclusive and not record.auto_delete
    return is_plain and QUEUE_TYPE not in record.arguments


def require_same_queue(existing: QueueRecord, wanted: QueueRecord) -> None:
    """Whether a queue may be declared again like this. Whose it is has been checked before."""
    owner = str(existing)
    require_same(owner, "durable", existing.durable, wanted.durable)
    require_same(owner, "auto_delete", existing.auto_delete, wanted.auto_delete)
    require_same_arguments(
        owner,
        _with_type_spelled_out(existing.arguments, wanted.arguments),
        _with_type_spelled_out(wanted.arguments, existing.arguments),
        _QUEUE_ARGUMENTS[queue_type_of(existing.arguments)],
    )


def validate_consumer_arguments(record: QueueRecord, arguments: Table) -> None:
    queue_type = queue_type_of(record.arguments)
    known = _CONSUMER_ARGUMENTS[queue_type]
    _check_values(record, arguments, _CONSUME_VALIDATORS, known)
    _check_names(record, arguments, queue_type, _CONSUMER_ARGUMENTS)


def consumer_priority(arguments: Table) -> int:
    field = arguments.get("x-priority")
    return field.value if field is not None and isinstance(field.value, int) else 0


def _check_values(
    record: QueueRecord,
    arguments: Table,
    validators: Mapping[str, Validator],
    known: Iterable[str],
) -> None:
    known = frozenset(known)
    for name, validate in validators.items():
        field = arguments.get(name) if name in known else None
        problem = validate(field, arguments) if field is not None else None
        if problem is not None:
            raise precondition_failed(f"invalid arg '{name}' for {record}: {problem}")


def _check_names(
    record: QueueRecord,
    arguments: Table,
    queue_type: QueueType,
    known: Mapping[QueueType, tuple[str, ...]],
) -> None:
    foreign = {name for names in known.values() for name in names} - {*known[queue_type]}
    for name, _ in arguments:
        if name in foreign:
            raise precondition_failed(
                f"invalid arg '{name}' for {record} of queue type {queue_type.module_name}"
            )


def _require_replicable(record: QueueRecord) -> None:
    """Quorum queues and streams live on several nodes, so no connection or node may own them."""
    if record.auto_delete:
        raise _invalid_property("auto-delete", record)
    if record.exclusive:
        raise _invalid_property("exclusive-owner", record)
    if not record.durable:
        raise _invalid_property("non-durable", record)
    size = record.arguments.get(_SEGMENT_SIZE)
    if size is not None and isinstance(size.value, int) and size.value > STREAM_SEGMENT_BYTES_MAX:
        raise precondition_failed(f"Exceeded max value for {_SEGMENT_SIZE}")


def _invalid_property(name: str, record: QueueRecord) -> SoftError:
    return precondition_failed(f"invalid property '{name}' for {record}")


def _with_type_spelled_out(arguments: Table, other: Table) -> Table:
    """Classic by default and classic on request are the same queue, and no difference to tell."""
    classic = Field("S", b"classic")
    if QUEUE_TYPE in arguments or other.get(QUEUE_TYPE) != classic:
        return arguments
    return arguments.replacing(QUEUE_TYPE, classic)


_check_queue_type: Final = supported("queue type", *(kind.value for kind in QueueType))

_DECLARE_VALIDATORS: Final[Mapping[str, Validator]] = {
    "x-expires": check_expires,
    "x-message-ttl": check_ttl,
    DEAD_LETTER_EXCHANGE: check_text,
    "x-dead-letter-routing-key": check_dead_letter_key,
    "x-dead-letter-strategy": one_of("invalid_dlx_strategy", "at-most-once", "at-least-once"),
    "x-max-length": check_not_negative,
    "x-max-length-bytes": check_not_negative,
    "x-max-in-memory-length": check_not_negative,
    "x-max-in-memory-bytes": check_not_negative,
    "x-max-priority": check_max_priority,
    "x-overflow": one_of("invalid_overflow", *(overflow.value for overflow in Overflow)),
    "x-queue-mode": supported("queue mode", "default", "lazy"),
    "x-queue-version": check_queue_version,
    "x-single-active-consumer": check_boolean,
    "x-message-deduplication": check_boolean,
    CACHE_SIZE: check_positive,
    CACHE_TTL: check_expires,
    "x-quorum-initial-group-size": check_positive,
    "x-max-age": check_max_age,
    _SEGMENT_SIZE: check_not_negative,
    "x-initial-cluster-size": check_positive,
    "x-queue-leader-locator": one_of(
        "invalid_queue_locator_arg", "client-local", "balanced", "random", "least-leaders"
    ),
}

_CONSUME_VALIDATORS: Final[Mapping[str, Validator]] = {
    "x-priority": check_integer,
    "x-cancel-on-ha-failover": check_boolean,
    "x-stream-offset": check_stream_offset,
}

# What each type knows, in the order in which a declaration is compared with what exists.
_QUEUE_ARGUMENTS: Final[Mapping[QueueType, tuple[str, ...]]] = {
    QueueType.CLASSIC: (
        "x-expires", "x-message-ttl", DEAD_LETTER_EXCHANGE, "x-dead-letter-routing-key",
        "x-max-length", "x-max-length-bytes", "x-max-priority", "x-overflow", "x-queue-mode",
        "x-queue-version", "x-single-active-consumer", QUEUE_TYPE, "x-queue-master-locator",
        "x-message-deduplication", CACHE_SIZE, CACHE_TTL,
    ),
    QueueType.QUORUM: (
        DEAD_LETTER_EXCHANGE, "x-dead-letter-routing-key", "x-dead-letter-strategy", "x-expires",
        "x-max-length", "x-max-length-bytes", "x-max-in-memory-length", "x-max-in-memory-bytes",
        "x-overflow", "x-single-active-consumer", QUEUE_TYPE, "x-quorum-initial-group-size",
        "x-delivery-limit", "x-message-ttl", "x-queue-leader-locator",
    ),
    QueueType.STREAM: (
        "x-max-length-bytes", QUEUE_TYPE, "x-max-age", _SEGMENT_SIZE, "x-initial-cluster-size",
        "x-queue-leader-locator",
    ),
}  # fmt: skip

_CONSUMER_ARGUMENTS: Final[Mapping[QueueType, tuple[str, ...]]] = {
    QueueType.CLASSIC: ("x-cancel-on-ha-failover", "x-priority", "x-credit"),
    QueueType.QUORUM: ("x-priority", "x-credit"),
    QueueType.STREAM: ("x-stream-offset", "x-credit"),
}
