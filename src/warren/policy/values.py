"""What each key of a policy may be set to, and RabbitMQ's text for what it may not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from warren.model.json_terms import JsonValue, render_json
from warren.model.limits import STREAM_SEGMENT_BYTES_MAX

# What is wrong with a value, if anything is.
Check: TypeAlias = Callable[[JsonValue], str | None]

_AGE: Final = re.compile(r"0*[1-9][0-9]*[YMDhms]")


def is_whole(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check(is_valid: Callable[[JsonValue], bool], complaint: str) -> Check:
    def check(value: JsonValue) -> str | None:
        return None if is_valid(value) else f"{render_json(value)} {complaint}"

    return check


def _at_least(minimum: int, what: str) -> Check:
    return _between(minimum, None, what)


def _between(minimum: int, maximum: int | None, what: str) -> Check:
    def is_valid(value: JsonValue) -> bool:
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            return False
        return maximum is None or value <= maximum

    return _check(is_valid, f"is not a valid {what}")


def _one_of(what: str, *values: JsonValue) -> Check:
    # Not `in`: 1 is no 1.0 and no true here.
    return _check(
        lambda value: any(value == v and type(value) is type(v) for v in values),
        f"is not a valid {what}",
    )


def _text(what: str) -> Check:
    return _check(lambda value: isinstance(value, str), f"is not a valid {what}")


def _is_age(value: JsonValue) -> bool:
    return isinstance(value, str) and _AGE.fullmatch(value) is not None


check_master_locator: Final = _check(
    lambda value: value in ("min-masters", "client-local", "random"),
    "invalid queue-master-locator value",
)

# All but ha-* and queue-master-locator, which are checked in other ways and earlier.
CHECKS: Final[Mapping[str, Check]] = {
    "alternate-exchange": _text("alternate exchange name"),
    "consumer-timeout": _at_least(0, "consumer timeout"),
    "dead-letter-exchange": _text("dead letter exchange name"),
    "dead-letter-routing-key": _text("dead letter routing key"),
    "dead-letter-strategy": _one_of("dead letter strategy", "at-most-once", "at-least-once"),
    "delivery-limit": _at_least(0, "delivery limit"),
    "expires": _at_least(1, "queue expiry"),
    "initial-cluster-size": _at_least(0, "cluster size"),
    "max-age": _check(_is_age, "is not a valid max age"),
    "max-in-memory-bytes": _at_least(0, "maximum memory in bytes"),
    "max-in-memory-length": _at_least(0, "maximum memory in bytes"),
    "max-length": _at_least(0, "maximum length"),
    "max-length-bytes": _at_least(0, "maximum length in bytes"),
    "message-ttl": _at_least(0, "message TTL"),
    "overflow": _one_of("overflow value", "drop-head", "reject-publish", "reject-publish-dlx"),
    "queue-leader-locator": _one_of(
        "queue leader locator value", "client-local", "balanced", "random", "least-leaders"
    ),
    "queue-mode": _one_of("queue-mode value", "default", "lazy"),
    "queue-version": _one_of("queue-version value", 1, 2),
    "stream-max-segment-size-bytes": _between(0, STREAM_SEGMENT_BYTES_MAX, "segment size"),
}

MIRRORING_KEYS: Final = frozenset(
    {
        "ha-mode",
        "ha-params",
        "ha-sync-mode",
        "ha-sync-batch-size",
        "ha-promote-on-shutdown",
        "ha-promote-on-failure",
    }
)
MASTER_LOCATOR: Final = "queue-master-locator"

POLICY_KEYS: Final = MIRRORING_KEYS | {MASTER_LOCATOR, *CHECKS}

# The first seven are RabbitMQ 3.10's; the others came with 3.12, and its definitions hold them.
OPERATOR_POLICY_KEYS: Final = frozenset(
    {
        "expires",
        "message-ttl",
        "max-length",
        "max-length-bytes",
        "max-in-memory-length",
        "max-in-memory-bytes",
        "delivery-limit",
        "overflow",
        "queue-version",
        "ha-mode",
        "ha-params",
        "ha-sync-mode",
    }
)
