"""Nodes of a parsed regular expression, and what can be told of them without matching."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Where(Enum):
    """Places in a name that match without taking a byte."""

    START = "start"
    END = "end"
    # At the end, or before a newline that is the last byte: `$`.
    LAST_LINE_END = "last line end"
    LINE_START = "line start"
    LINE_END = "line end"
    BOUNDARY = "boundary"
    NO_BOUNDARY = "no boundary"


class Eagerness(Enum):
    GREEDY = ""
    LAZY = "?"
    POSSESSIVE = "+"


@dataclass(frozen=True, slots=True)
class OneByte:
    members: int


@dataclass(frozen=True, slots=True)
class Place:
    where: Where


@dataclass(frozen=True, slots=True)
class InOrder:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`most` is None if there is no upper bound."""

    body: Node
    least: int
    most: int | None
    eagerness: Eagerness = Eagerness.GREEDY


@dataclass(frozen=True, slots=True)
class Capture:
    body: Node


@dataclass(frozen=True, slots=True)
class Atomic:
    body: Node


@dataclass(frozen=True, slots=True)
class Look:
    body: Node
    is_ahead: bool
    is_negative: bool


@dataclass(frozen=True, slots=True)
class BackReference:
    group: int
    is_caseless: bool


@dataclass(frozen=True, slots=True)
class IfCaptured:
    group: int
    then: Node
    otherwise: Node


Node: TypeAlias = (
    OneByte
    | Place
    | InOrder
    | OneOf
    | Repeat
    | Capture
    | Atomic
    | Look
    | BackReference
    | IfCaptured
)

NOTHING: InOrder = InOrder(())


def matches_anywhere(node: Node) -> bool:
    """True if the node matches the empty string at every place."""
    match node:
        case InOrder(parts):
            return all(map(matches_anywhere, parts))
        case OneOf(branches):
            return any(map(matches_anywhere, branches))
        case Repeat(body, least):
            return least == 0 or matches_anywhere(body)
        case Capture(body) | Atomic(body):
            return matches_anywhere(body)
        case _:
            return False


def fixed_length(node: Node) -> int | None:
    """Number of bytes that the node takes; None if that varies. PCRE's rule for look-behind."""
    match node:
        case OneByte():
            return 1
        case Place() | Look():
            return 0
        case InOrder(parts):
            lengths = [fixed_length(part) for part in parts]
            return None if None in lengths else sum(filter(None, lengths))
        case OneOf(branches):
            different = {fixed_length(branch) for branch in branches}
            return different.pop() if len(different) == 1 else None
        case Repeat(body, least, most):
            length = fixed_length(body)
            return length * least if length is not None and least == most else None
        case Capture(body) | Atomic(body):
            return fixed_length(body)
        case BackReference() | IfCaptured():
            return None


def compiled_bytes(node: Node) -> int:
    """Return about how many bytes PCRE needs for the node; it copies a group that is repeated."""
    match node:
        case OneByte(members):
            return 2 if members.bit_count() == 1 else 33
        case InOrder(parts):
            return sum(map(compiled_bytes, parts))
        case OneOf(branches):
            return sum(compiled_bytes(branch) + 3 for branch in branches) + 3
        case Repeat(OneByte() as body):
            return compiled_bytes(body) + 5
        case Repeat(body, least, most):
            return compiled_bytes(body) * max(1, least, most or 0) + 5
        case Capture(body) | Atomic(body) | Look(body):
            return compiled_bytes(body) + 8
        case IfCaptured(_, then, otherwise):
            return compiled_bytes(then) + compiled_bytes(otherwise) + 12
        case Place() | BackReference():
            return 3


def repeated_bytes(node: Node, times: int = 1, is_repeated: bool = False) -> int:
    """Return how many bytes can be under way at once in a match that tries all ways together.

    Each byte of a repetition counts, as often as it may be repeated by number.
    """
    match node:
        case OneByte():
            return times if is_repeated else 0
        case InOrder(parts) | OneOf(parts):
            return sum(repeated_bytes(part, times, is_repeated) for part in parts)
        case Repeat(body, least, most):
            return repeated_bytes(body, times * max(1, least, most or 0), is_repeated=True)
        case Capture(body) | Atomic(body) | Look(body):
            return repeated_bytes(body, times, is_repeated)
        case IfCaptured(_, then, otherwise):
            both = (then, otherwise)
            return sum(repeated_bytes(branch, times, is_repeated) for branch in both)
        case Place() | BackReference():
            return 0


def shortest(node: Node) -> int:
    """Return a number of bytes that whatever the node matches has at least."""
    match node:
        case OneByte():
            return 1
        case InOrder(parts):
            return sum(map(shortest, parts))
        case OneOf(branches):
            return min(map(shortest, branches))
        case Repeat(body, least):
            return shortest(body) * least
        case Capture(body) | Atomic(body):
            return shortest(body)
        case IfCaptured(_, then, otherwise):
            return min(shortest(then), shortest(otherwise))
        case Place() | Look() | BackReference():
            return 0


def example(node: Node) -> bytes:
    """Return a short string that the node is likely to match; a guess where places are involved."""
    match node:
        case OneByte(members):
            return bytes([_typical_byte(members)]) if members else b""
        case InOrder(parts):
            return b"".join(map(example, parts))
        case OneOf(branches):
            return example(branches[0])
        case Repeat(body, least):
            return example(body) * min(least, 255)
        case Capture(body) | Atomic(body):
            return example(body)
        case _:
            return b""


def _typical_byte(members: int) -> int:
    letters = members >> 0x61 & (1 << 26) - 1
    chosen = letters << 0x61 if letters else members
    return (chosen & -chosen).bit_length() - 1
