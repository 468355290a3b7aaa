"""Positions where reading begins and ends: `earliest`, `latest`, an offset, or a moment.

A number is an offset; a moment is written as ISO 8601 has it, so the two cannot be taken for each
other. A moment without a zone is UTC. Options with `Timestamp` in their name take moments alone,
and there a number is milliseconds since 1970, as Kafka's source has it.

One position may be given for all queues, or one for each of them as a JSON object:
`{"orders": 23, "clicks": "earliest"}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from pyspark_warren.errors import InvalidOption

OFFSET_MAX: Final = 2**63 - 1
# Numbers that stand for words in Kafka's JSON.
_WORDS_OF_NUMBERS: Final = {-2: "earliest", -1: "latest"}


class PositionKind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    MOMENT = "moment"


@dataclass(frozen=True, slots=True)
class Position:
    kind: PositionKind
    number: int = 0
    """The offset, or milliseconds since 1970."""
    must_exist: bool = False
    """True if it is an error that no record was taken at the moment or later."""
    option: str = field(default="", compare=False)
    """Name of the option that gives a moment, for errors."""


EARLIEST: Final = Position(PositionKind.EARLIEST)
LATEST: Final = Position(PositionKind.LATEST)


@dataclass(frozen=True, slots=True)
class Positions:
    """The positions that an option gives."""

    option: str
    """Name of the option, for errors."""
    every: Position | None = None
    """That of all queues; None: see `of_queue`."""
    of_queue: Mapping[str, Position] = field(default_factory=dict)

    @property
    def is_given(self) -> bool:
        return self.every is not None or bool(self.of_queue)

    def of(self, queue: str, default: Position) -> Position:
        """The position of a queue, or the default if the option says nothing about it."""
        return self.of_queue.get(queue, self.every or default)

    def all(self) -> tuple[Position, ...]:
        """Every position that is named."""
        return (*(() if self.every is None else (self.every,)), *self.of_queue.values())

    def require_named(self, queues: tuple[str, ...]) -> None:
        """Raises InvalidOption unless these are the queues that the JSON names, if it is JSON."""
        if not self.of_queue:
            return
        missing = [queue for queue in queues if queue not in self.of_queue]
        if missing:
            raise InvalidOption(
                f"option {self.option}: says nothing about {', '.join(map(repr, missing))}; name "
                "every queue that is read"
            )
        other = [queue for queue in self.of_queue if queue not in queues]
        if other:
            raise InvalidOption(
                f"option {self.option}: {', '.join(map(repr, other))} is not read; name it with "
                "option subscribe, too, or leave it out"
            )


def parse_position(option: str, text: str) -> Position:
    """Raises InvalidOption, which names the option.

    Examples
    --------
    >>> parse_position("startingOffsets", "17").number
    17
    >>> parse_position("startingOffsets", "1970-01-01T00:00:01Z").number
    1000
    """
    text = text.strip()
    if text.lower() in {"earliest", "latest"}:
        return Position(PositionKind(text.lower()))
    if text.isascii() and text.isdigit():
        if int(text) > OFFSET_MAX:
            raise InvalidOption(f"option {option}: offset {text} is beyond {OFFSET_MAX}")
        return Position(PositionKind.OFFSET, int(text))
    return _moment(option, text, "neither earliest, latest, an offset, nor a moment")


def parse_moment(option: str, text: str) -> Position:
    """A moment, or milliseconds since 1970. Raises InvalidOption."""
    text = text.strip()
    if text.isascii() and text.isdigit() and int(text) <= OFFSET_MAX:
        return Position(PositionKind.MOMENT, int(text), option=option)
    return _moment(option, text, "neither milliseconds since 1970 nor a moment")


def parse_positions(option: str, text: str) -> Positions:
    """One position, or a JSON object with one for each queue. Raises InvalidOption.

    Examples
    --------
    >>> parse_positions("startingOffsets", '{"orders": 23}').of_queue["orders"].number
    23
    """
    if not text.strip().startswith("{"):
        return Positions(option, parse_position(option, text))
    named = _object(option, text)
    return Positions(
        option, None, {queue: _position_of(option, queue, said) for queue, said in named.items()}
    )


def parse_moments(option: str, text: str, *, must_exist: bool) -> Positions:
    """One moment, or a JSON object with one for each queue. Raises InvalidOption."""
    if not text.strip().startswith("{"):
        return Positions(option, replace(parse_moment(option, text), must_exist=must_exist))
    moments = {
        queue: replace(_moment_of(option, queue, said), must_exist=must_exist)
        for queue, said in _object(option, text).items()
    }
    return Positions(option, None, moments)


def _object(option: str, text: str) -> dict[str, object]:
    example = '{"orders": 23}'
    try:
        named = json.loads(text)
    except ValueError as error:
        raise InvalidOption(
            f"option {option}: is not JSON ({error}); write it as {example}"
        ) from None
    if not isinstance(named, dict) or not named:
        raise InvalidOption(f"option {option}: name at least one queue, as in {example}")
    return named


def _position_of(option: str, queue: str, said: object) -> Position:
    if isinstance(said, int) and not isinstance(said, bool):
        return parse_position(option, _WORDS_OF_NUMBERS.get(said, str(said)))
    if isinstance(said, str):
        return parse_position(option, said)
    raise _wrong(option, queue, said)


def _moment_of(option: str, queue: str, said: object) -> Position:
    if isinstance(said, int | str) and not isinstance(said, bool):
        return parse_moment(option, str(said))
    raise _wrong(option, queue, said)


def _wrong(option: str, queue: str, said: object) -> InvalidOption:
    if isinstance(said, dict):
        why = f'a queue has one log and no partitions: write {{"{queue}": 23}}'
    else:
        why = "is no position"
    return InvalidOption(f"option {option}: {json.dumps(said)} of {queue!r}: {why}")


def _moment(option: str, text: str, what_it_is: str) -> Position:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(
            f"option {option}: {text!r} is {what_it_is} such as 2026-08-01T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    moment_ms = int(moment.timestamp() * 1000)
    if moment_ms < 0:
        raise InvalidOption(f"option {option}: {text} is before 1970")
    return Position(PositionKind.MOMENT, moment_ms, option=option)
