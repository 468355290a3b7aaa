"""RabbitMQ's regular expressions, with engines that cannot hang.

RabbitMQ hands names to PCRE as bytes: the search is unanchored, `.` is one byte of UTF-8, letters
are those of ISO Latin-1. `pcre_syntax` parses patterns as PCRE does, and
`regular_expression_engines` has three ways to match them, two of which take linear time.

Patterns come from tenants: a policymaker writes them for its own virtual host, and names the queues
they are matched with. PCRE gives up after some ten million steps, a fraction of a second later, and
the answer is no. Here a match ends after MATCH_CPU_S_MAX, and since one pattern meets thousands of
names, a pattern that ran into that limit is given up: it does not match any more, without being
tried, it is logged, and `problem` says so. The same goes for one that is merely slow and has used
up its budget: a name is worth NAME_CPU_S, what a match takes beyond is charged, and the charges of
a pattern, or of all patterns together, may not exceed theirs within WINDOW_S.

A tenant can send one such pattern after the other. So when matches have run into the limit for
LONG_MATCHES_CPU_S_MAX within WINDOW_S, the limit is a twentieth until that window is over: two
hundred times what sound patterns take.

A pattern that can take long is tried before it is set: with names made from itself that are hard
for it (`require_pattern`), and by the caller with the names that there are (`require`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from warren.model.logs import EventLog
from warren.model.pcre_escapes import Mistake
from warren.model.pcre_nodes import (
    Atomic,
    Capture,
    InOrder,
    Look,
    Node,
    OneOf,
    Repeat,
    example,
)
from warren.model.pcre_syntax import parse
from warren.model.regular_expression_engines import Effort, NoEngine, choose_engine, match_limit

PATTERN_BYTES_MAX: Final = 16_384
# CPU time that matching one name may take without being charged: ten times what is usual.
NAME_CPU_S: Final = 20e-6
# What may be charged to one pattern, and to all together, within the window.
PATTERN_CPU_S_MAX: Final = 0.1
ALL_PATTERNS_CPU_S_MAX: Final = 0.5
# What matches that run into the limit may take within the window before the limit is shortened.
LONG_MATCHES_CPU_S_MAX: Final = 0.06
WINDOW_S: Final = 10.0

NAME_BYTES_MAX: Final = 255
TRIALS_MAX: Final = 16

_log: Final = EventLog("policy")


class InvalidPattern(ValueError):
    """Not a regular expression, or one that cannot be used here."""

    def __init__(self, pattern: str, reason: str, position: int = 0) -> None:
        super().__init__(f"regular expression '{pattern}' is invalid: {reason}")
        self.pattern = pattern
        self.reason = reason
        self.position = position


class _Charges:
    """CPU time charged within a window of time."""

    __slots__ = ("_since", "_spent_s")

    def __init__(self) -> None:
        self._since = 0.0
        self._spent_s = 0.0

    def add(self, now: float, spent_s: float) -> float:
        """Return the sum of this window's charges."""
        if now - self._since > WINDOW_S:
            self._since, self._spent_s = now, 0.0
        self._spent_s += spent_s
        return self._spent_s


_of_all: Final = _Charges()
_of_long_matches: Final = _Charges()


class RegularExpression:
    """A compiled pattern; `owner` is what the log names if it has to be given up."""

    __slots__ = (
        "_charges",
        "_node",
        "_search",
        "can_take_long",
        "matches",
        "owner",
        "problem",
        "text",
    )

    def __init__(self, text: str, owner: str = "", is_caseless: bool = False) -> None:
        """Raises InvalidPattern."""
        self.text = text
        self.owner = owner
        # Why the pattern matches nothing any more; empty while it is in use.
        self.problem = ""
        self._charges = _Charges()
        self._node = _parsed(text, is_caseless)
        try:
            self._search, effort = choose_engine(self._node)
        except NoEngine as error:
            raise InvalidPattern(text, str(error)) from error
        self.can_take_long = effort is Effort.UNKNOWN
        # How a name is matched, given its bytes.
        self.matches = self._search if effort is Effort.NONE else self._search_within_limits

    def matches_name(self, name: str) -> bool:
        return self.matches(name.encode(errors="surrogateescape"))

    def require(self, octets: bytes) -> bool:
        """Match as ever; raises InvalidPattern if that showed the pattern to be too slow."""
        found = self.matches(octets)
        if self.problem:
            raise InvalidPattern(self.text, self.problem, len(self.text.encode()))
        return found

    def hard_names(self) -> Iterator[bytes]:
        """Names that make an engine which backtracks try everything, if anything does."""
        return _hard_names(self._node)

    def _search_within_limits(self, octets: bytes) -> bool:
        if self.can_take_long:
            _adapt_limit(0.0)
        begun = time.perf_counter()
        try:
            found = self._search(octets)
        except TimeoutError:
            spent_s = match_limit.cpu_s
            _of_all.add(time.monotonic(), spent_s)
            _adapt_limit(spent_s)
            self._give_up(f"it takes more than {spent_s * 1000:g} ms to match a name", octets)
            return False
        if time.perf_counter() - begun > NAME_CPU_S:
            self._charge(octets)
        return found

    def _charge(self, octets: bytes) -> None:
        """Measure the match again by CPU time: before, the machine may just have been busy."""
        begun = time.thread_time()
        with suppress(TimeoutError):  # the charge will say so
            self._search(octets)
        excess_s = time.thread_time() - begun - NAME_CPU_S
        if excess_s <= 0:
            return
        now = time.monotonic()
        of_all_s = _of_all.add(now, excess_s)
        if (
            self._charges.add(now, excess_s) > PATTERN_CPU_S_MAX
            or of_all_s > ALL_PATTERNS_CPU_S_MAX
        ):
            self._give_up(
                "it is too slow for the number of names it has to be matched with", octets
            )

    def _give_up(self, problem: str, octets: bytes) -> None:
        self.problem = problem
        self.matches = _never
        _log.warning(
            "pattern given up",
            owner=self.owner,
            pattern=self.text,
            name=octets.decode(errors="replace"),
            reason=problem,
        )


def _adapt_limit(spent_s: float) -> None:
    """Count a match that ran into its limit, and choose the limit of the next one."""
    long_s = _of_long_matches.add(time.monotonic(), spent_s)
    match_limit.is_short = long_s >= LONG_MATCHES_CPU_S_MAX


def _never(octets: bytes) -> bool:
    return False


def compile_pattern(text: str, owner: str = "", is_caseless: bool = False) -> RegularExpression:
    """Return the pattern ready for use; raises InvalidPattern."""
    return RegularExpression(text, owner, is_caseless)


def require_pattern(text: str, is_caseless: bool = False) -> RegularExpression:
    """Compile a pattern that is about to be set; raises InvalidPattern, also if it is too slow."""
    compiled = RegularExpression(text, "a pattern that was refused", is_caseless)
    if compiled.can_take_long:
        for octets in compiled.hard_names():
            compiled.require(octets)
    return compiled


def _parsed(text: str, is_caseless: bool) -> Node:
    try:
        octets = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidPattern(text, str(error)) from error
    if len(octets) > PATTERN_BYTES_MAX:
        raise InvalidPattern(text, "regular expression is too large", len(octets))
    try:
        return parse(octets, is_caseless)
    except Mistake as mistake:
        raise InvalidPattern(text, mistake.reason, mistake.position) from mistake


def _hard_names(node: Node) -> Iterator[bytes]:
    """Repeat what can be repeated, up to a name's length, and go on with what cannot follow."""
    for _, (before, body, after) in zip(range(TRIALS_MAX), _repeated(node, b"", b""), strict=False):
        room = NAME_BYTES_MAX - 1 - len(before) - len(after)
        if body and room > 0:
            yield before + (body * room)[:room] + b"\x00" + after


def _repeated(node: Node, before: bytes, after: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Bodies of repetitions, as examples, and examples of what comes before and after each."""
    match node:
        case InOrder(parts):
            examples = [example(part) for part in parts]
            for index, part in enumerate(parts):
                following = b"".join(examples[index + 1 :]) + after
                yield from _repeated(part, before, following)
                before += examples[index]
        case OneOf(branches):
            for branch in branches:
                yield from _repeated(branch, before, after)
        case Repeat(body, _, most):
            if most is None or most > 1:
                yield before, example(body) or b"a", after
            yield from _repeated(body, before, after)
        case Capture(body) | Atomic(body) | Look(body):
            yield from _repeated(body, before, after)
