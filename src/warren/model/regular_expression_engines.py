"""Engines for regular expressions: plain comparisons, RE2, and backtracking with a time limit.

Each takes a parsed pattern (`pcre_nodes`) and answers one question: is there a match in a name?
Where a match begins or ends, and which alternative was taken, concerns nobody, so that an engine
may take any way to the answer:

- most patterns are a prefix, a suffix or nothing but `.*`: a comparison of bytes will do;
- RE2 takes linear time, whatever the pattern; it has no look-around and no references. But that
  time grows with what a pattern counts, too: RE2 writes `(a|b){500}` out five hundred times, and
  `.{0,1000}` forty times in a row takes it seconds to compile. So it gets what counts little;
- looking ahead at the beginning (`^(?!amq\\.)`) is two questions to RE2, and linear, too;
- all else backtracks, in the `regex` package, which ends a match after `match_limit`.

RE2 and `regex` are imported when a pattern needs them: together they cost 5 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import lru_cache
from typing import Final, TypeAlias

from warren.model.pcre_bytes import WORD, ranges_of
from warren.model.pcre_nodes import (
    Atomic,
    BackReference,
    Capture,
    Eagerness,
    IfCaptured,
    InOrder,
    Look,
    Node,
    OneByte,
    OneOf,
    Place,
    Repeat,
    Where,
    compiled_bytes,
    matches_anywhere,
    repeated_bytes,
    shortest,
)

# What one match may take in an engine that backtracks, in seconds of this process's CPU time: it
# goes by the processor's clock, so that a busy machine makes no pattern slow.
MATCH_CPU_S_MAX: Final = 0.002
# The same while patterns keep running into that limit.
SHORT_MATCH_CPU_S_MAX: Final = 0.0005
# Bytes that RE2 may have under way at once: with as many a name of 255 bytes takes 0.6 ms at worst.
LINEAR_BYTES_MAX: Final = 128
# Memory for a pattern's program and its states.
RE2_MEMORY_BYTES_MAX: Final = 1_048_576
# A larger one takes too long to compile; in bytes as PCRE would compile it.
BACKTRACKING_BYTES_MAX: Final = 4096
# No name and no routing key is that long, so a pattern that needs more matches none.
SUBJECT_BYTES_MAX: Final = 1024

Search: TypeAlias = Callable[[bytes], bool]


class NoEngine(ValueError):
    """No engine takes the pattern; the text says why."""


class _NotLinear(Exception):
    """RE2 has no such thing."""


class MatchLimit:
    """CPU time that the next match may take in an engine that backtracks."""

    cpu_s = MATCH_CPU_S_MAX


match_limit: Final = MatchLimit()


class Effort(Enum):
    """Time that a search may take."""

    NONE = "none"
    LINEAR = "linear"
    # It raises TimeoutError after `match_limit`.
    UNKNOWN = "unknown"


def choose_engine(node: Node) -> tuple[Search, Effort]:
    """Return how to search, and what that may take; raises NoEngine."""
    if shortest(node) > SUBJECT_BYTES_MAX:
        return _never, Effort.NONE
    parts = _significant_parts(node)
    if (search := _comparison(parts)) is not None:
        return search, Effort.NONE
    if (search := _linear(parts)) is not None:
        return search, Effort.LINEAR
    if compiled_bytes(node) > BACKTRACKING_BYTES_MAX:
        raise NoEngine(
            "it is too large for Warren, given that it looks around, refers to groups or counts"
        )
    return _backtracking(node), Effort.UNKNOWN


def _never(octets: bytes) -> bool:
    return False


def _significant_parts(node: Node) -> Sequence[Node]:
    """Parts of a sequence without those at either end that match anywhere: they change nothing."""
    parts = list(node.parts) if isinstance(node, InOrder) else [node]
    while parts and matches_anywhere(parts[-1]):
        parts.pop()
    while parts and matches_anywhere(parts[0]):
        parts.pop(0)
    return parts


# Comparisons.


def _comparison(parts: Sequence[Node]) -> Search | None:
    """Return a plain comparison if the pattern is a text, perhaps with anchors."""
    from_start = parts[:1] == [Place(Where.START)]
    inner = parts[1:] if from_start else parts
    to_end = inner[-1:] in ([Place(Where.END)], [Place(Where.LAST_LINE_END)])
    may_have_newline = inner[-1:] == [Place(Where.LAST_LINE_END)]
    inner = inner[:-1] if to_end else inner
    text = _text_of(inner)
    if text is None:
        return None
    if not to_end:
        return (
            (lambda octets: octets.startswith(text))
            if from_start
            else (lambda octets: text in octets)
        )
    endings = (text, text + b"\n") if may_have_newline else (text,)
    if from_start:
        return lambda octets: octets in endings
    return lambda octets: octets.endswith(endings)


def _text_of(parts: Iterable[Node]) -> bytes | None:
    text = bytearray()
    for part in parts:
        if not isinstance(part, OneByte) or part.members.bit_count() != 1:
            return None
        text.append(part.members.bit_length() - 1)
    return bytes(text)


# RE2.


def _linear(parts: Sequence[Node]) -> Search | None:
    """Return a search by RE2; None if the pattern is not for it."""
    questions: list[tuple[Search, bool]] = []
    start: list[Node] = []
    rest = list(parts)
    if rest[:1] == [Place(Where.START)]:
        start.append(rest.pop(0))
        while rest and isinstance(look := rest[0], Look) and look.is_ahead:
            question = _one_linear([*start, look.body])
            if question is None:
                return None
            questions.append((question, not look.is_negative))
            rest.pop(0)
    if rest or not questions:
        question = _one_linear([*start, *rest])
        if question is None:
            return None
        questions.append((question, True))
    if len(questions) == 1 and questions[0][1]:
        return questions[0][0]
    return lambda octets: all(ask(octets) is wanted for ask, wanted in questions)


def _one_linear(parts: Sequence[Node]) -> Search | None:
    significant = _significant_parts(InOrder(tuple(parts)))
    comparison = _comparison(significant)
    if comparison is not None:
        return comparison
    if sum(map(repeated_bytes, significant)) > LINEAR_BYTES_MAX:
        return None
    import re2

    options = re2.Options()
    options.max_mem = RE2_MEMORY_BYTES_MAX
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.never_capture = True
    try:
        text = _for_re2(InOrder(tuple(significant)), is_last=True)
        compiled = re2.compile(text.encode("latin-1"), options)
    except (_NotLinear, re2.error, RecursionError):
        return None
    search = compiled.search
    return lambda octets: search(octets) is not None


def _for_re2(node: Node, is_last: bool) -> str:
    """Write the node for RE2. `is_last` is True if nothing can follow what it matches."""
    match node:
        case OneByte(members):
            return _set(members)
        case InOrder(parts):
            after = len(parts) - 1
            return "".join(
                _for_re2(part, is_last and index == after) for index, part in enumerate(parts)
            )
        case OneOf(branches):
            return f"(?:{'|'.join(_for_re2(branch, is_last) for branch in branches)})"
        case Capture(body):
            return f"(?:{_for_re2(body, is_last)})"
        case Repeat(body, least, most, eagerness) if eagerness is not Eagerness.POSSESSIVE:
            return f"(?:{_for_re2(body, False)}){_counts(least, most)}"
        case Place(Where.START):
            return r"\A"
        case Place(Where.END):
            return r"\z"
        case Place(Where.LAST_LINE_END) if is_last:  # else the newline would be taken
            return r"(?:\n?\z)"
        case _:
            raise _NotLinear


# Backtracking.


def _backtracking(node: Node) -> Search:
    import regex

    try:
        # Version 0 of its syntax, ASCII: all that depends on either is written out.
        compiled = regex.compile(_for_regex(node, _refers(node)).encode("latin-1"), regex.V0)
    except regex.error as error:
        raise NoEngine(f"it is too complicated for Warren: {error}") from error
    except RecursionError:
        raise NoEngine("it is too deeply nested for Warren") from None
    search = compiled.search
    return lambda octets: search(octets, timeout=match_limit.cpu_s) is not None


def _refers(node: Node) -> bool:
    """True if groups have to be numbered."""
    match node:
        case BackReference() | IfCaptured():
            return True
        case InOrder(parts) | OneOf(parts):
            return any(map(_refers, parts))
        case Repeat(body) | Capture(body) | Atomic(body) | Look(body):
            return _refers(body)
        case _:
            return False


_PLACES: Final = {
    Where.START: r"\A",
    Where.END: r"\Z",
    Where.LAST_LINE_END: r"(?=\n?\Z)",
    Where.LINE_START: r"(?:\A|(?<=\n)(?!\Z))",
    Where.LINE_END: r"(?=\n|\Z)",
}


def _for_regex(node: Node, numbered: bool) -> str:
    match node:
        case OneByte(members):
            return _set(members) if members else "(?!)"
        case InOrder(parts):
            return "".join(_for_regex(part, numbered) for part in parts)
        case OneOf(branches):
            return f"(?:{'|'.join(_for_regex(branch, numbered) for branch in branches)})"
        case Capture(body):
            return f"({'' if numbered else '?:'}{_for_regex(body, numbered)})"
        case Atomic(body):
            return f"(?>{_for_regex(body, numbered)})"
        case Repeat(body, least, most, eagerness):
            counts = _counts(least, most) + eagerness.value
            return f"(?:{_for_regex(body, numbered)}){counts}"
        case Look(body, is_ahead, is_negative):
            opening = f"(?{'' if is_ahead else '<'}{'!' if is_negative else '='}"
            return f"{opening}{_for_regex(body, numbered)})"
        case BackReference(group, is_caseless):
            return rf"(?i:\{group})(?:)" if is_caseless else rf"\{group}(?:)"
        case IfCaptured(group, then, otherwise):
            both = f"{_for_regex(then, numbered)}|{_for_regex(otherwise, numbered)}"
            return f"(?({group}){both})"
        case Place(where):
            return _PLACES[where] if where in _PLACES else _boundary(where is Where.BOUNDARY)


def _boundary(is_wanted: bool) -> str:
    word = _set(WORD)
    if is_wanted:
        return f"(?:(?<={word})(?!{word})|(?<!{word})(?={word}))"
    return f"(?:(?<={word})(?={word})|(?<!{word})(?!{word}))"


def _counts(least: int, most: int | None) -> str:
    match least, most:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
    return f"{{{least},{'' if most is None else most}}}"


@lru_cache(maxsize=512)
def _set(members: int) -> str:
    r"""Write a set of bytes so that both engines read it alike: nothing but `\xHH`."""
    ranges = list(ranges_of(members))
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        byte = ranges[0][0]
        return chr(byte) if chr(byte).isalnum() and byte < 128 else rf"\x{byte:02x}"
    if not members:
        return r"[^\x00-\xff]"
    inside = "".join(
        rf"\x{first:02x}" if first == last else rf"\x{first:02x}-\x{last:02x}"
        for first, last in ranges
    )
    return f"[{inside}]"
