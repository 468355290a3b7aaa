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
a pattern, or of all patterns together, may not exceed theirs within WINDOW_S. Patterns in force and
those that users have just sent (filters of lists, what is to be set) have an account each: nobody's
policy is given up because somebody else sends slow filters.

A tenant can send one such pattern after the other. So when matches have run into the limit for
LONG_MATCHES_CPU_S_MAX within WINDOW_S, the limit is a quarter until that window is over: a hundred
times what sound patterns take. To compile a pattern takes time, too, some 2.5 ms for each kilobyte:
those that are large, or no patterns, have a budget for it, after which they are refused for a
while. What was compiled lately is kept, since setting a policy needs it several times.

A pattern that can take long is tried before it is set: with names made from itself that are hard
for it (`require_pattern`), and by the caller with the names that there are (`require`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache
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
from warren.model.regular_expression_engines import (
    MATCH_CPU_S_MAX,
    SHORT_MATCH_CPU_S_MAX,
    Effort,
    NoEngine,
    Search,
    choose_engine,
    match_limit,
)

PATTERN_BYTES_MAX: Final = 16_384
# The same for one that is to be set.
NEW_PATTERN_BYTES_MAX: Final = 4_096
LARGE_PATTERN_BYTES_MIN: Final = 512
# What compiling large patterns that are to be set may take within the window.
LARGE_PATTERNS_CPU_S_MAX: Final = 0.1
COMPILED_KEPT_MAX: Final = 32
# CPU time that matching one name may take without being charged: ten times what is usual.
NAME_CPU_S: Final = 20e-6
# What may be charged to one pattern, and to all together, within the window.
PATTERN_CPU_S_MAX: Final = 0.1
ALL_PATTERNS_CPU_S_MAX: Final = 0.5
# With less than that a pattern has no share in what all take.
SHARE_CPU_S_MIN: Final = 0.01
# What matches that run into the limit may take within the window before the limit is shortened.
LONG_MATCHES_CPU_S_MAX: Final = 0.006
WINDOW_S: Final = 10.0

NAME_BYTES_MAX: Final = 255
TRIALS_MAX: Final = 16
TRIALS_CPU_S_MAX: Final = 0.002
_TOO_SLOW: Final = "it is too slow for the number of names it has to be matched with"
_REFUSED: Final = "a pattern that was refused"

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


class _Account:
    """What patterns of one kind take together, so that no kind lives at the cost of another."""

    __slots__ = ("_excess", "_long_matches")

    def __init__(self) -> None:
        self._excess = _Charges()
        self._long_matches = _Charges()

    def limit_s(self) -> float:
        """CPU time for the next match: less while matches keep running into the limit."""
        long_s = self._long_matches.add(time.monotonic(), 0.0)
        is_short = long_s >= LONG_MATCHES_CPU_S_MAX
        return SHORT_MATCH_CPU_S_MAX if is_short else MATCH_CPU_S_MAX

    def add_long_match(self, limit_s: float) -> None:
        self._long_matches.add(time.monotonic(), limit_s)

    def add(self, now: float, excess_s: float) -> float:
        return self._excess.add(now, excess_s)


# Patterns in force, and those that a user has just sent: filters, and what is to be set.
_stored: Final = _Account()
_sent: Final = _Account()
_of_large_patterns: Final = _Charges()


class RegularExpression:
    """A compiled pattern; `owner` is what the log names if it has to be given up."""

    __slots__ = (
        "_account",
        "_charges",
        "_node",
        "_search",
        "can_take_long",
        "matches",
        "owner",
        "problem",
        "text",
    )

    def __init__(
        self,
        text: str,
        owner: str = "",
        is_caseless: bool = False,
        account: _Account = _stored,
    ) -> None:
        """Raises InvalidPattern."""
        self._account = account
        self.text = text
        self.owner = owner
        # Why the pattern matches nothing any more; empty while it is in use.
        self.problem = ""
        self._charges = _Charges()
        self._node, self._search, effort = _compiled(text, is_caseless)
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
            match_limit.cpu_s = self._account.limit_s()
        begun = time.thread_time()
        try:
            found = self._search(octets)
        except TimeoutError:
            limit_s = match_limit.cpu_s
            self._account.add_long_match(limit_s)
            self._give_up(f"it takes more than {limit_s * 1000:g} ms to match a name", octets)
            return False
        excess_s = time.thread_time() - begun - NAME_CPU_S
        if excess_s > 0:
            self._charge(octets, excess_s)
        return found

    def _charge(self, octets: bytes, excess_s: float) -> None:
        now = time.monotonic()
        own_s, of_all_s = self._charges.add(now, excess_s), self._account.add(now, excess_s)
        is_share = own_s > SHARE_CPU_S_MIN and of_all_s > ALL_PATTERNS_CPU_S_MAX
        if own_s > PATTERN_CPU_S_MAX or is_share:
            self._give_up(_TOO_SLOW, octets)

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


def _never(octets: bytes) -> bool:
    return False


def compile_pattern(text: str, owner: str = "", is_caseless: bool = False) -> RegularExpression:
    """Return the pattern ready for use; raises InvalidPattern."""
    return RegularExpression(text, owner, is_caseless)


def require_pattern(text: str) -> RegularExpression:
    """Compile a pattern that is about to be set; raises InvalidPattern, also if it is too slow."""
    compiled = compile_new_pattern(text)
    if compiled.can_take_long:
        begun = time.thread_time()
        for octets in compiled.hard_names():
            compiled.require(octets)
            if time.thread_time() - begun > TRIALS_CPU_S_MAX:
                raise InvalidPattern(text, _TOO_SLOW, len(text.encode()))
    return compiled


def compile_new_pattern(text: str, is_caseless: bool = False) -> RegularExpression:
    """Compile what a user has just sent; raises InvalidPattern.

    The pattern has not been tried, so it is for names that are matched with `require`.
    """
    size = len(text.encode(errors="replace"))
    if size > NEW_PATTERN_BYTES_MAX:
        raise InvalidPattern(text, f"it has more than {NEW_PATTERN_BYTES_MAX:,} bytes", size)
    if size < LARGE_PATTERN_BYTES_MIN:
        return RegularExpression(text, _REFUSED, is_caseless, _sent)
    if _of_large_patterns.add(time.monotonic(), 0.0) > LARGE_PATTERNS_CPU_S_MAX:
        raise InvalidPattern(text, f"too many large ones came within {WINDOW_S:g} s: try again")
    begun = time.thread_time()
    try:
        return RegularExpression(text, _REFUSED, is_caseless, _sent)
    finally:
        _of_large_patterns.add(time.monotonic(), time.thread_time() - begun)


@lru_cache(maxsize=COMPILED_KEPT_MAX)
def _compiled(text: str, is_caseless: bool) -> tuple[Node, Search, Effort]:
    node = _parsed(text, is_caseless)
    try:
        return node, *choose_engine(node)
    except NoEngine as error:
        raise InvalidPattern(text, str(error)) from error


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
