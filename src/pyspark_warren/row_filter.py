"""Row filters: tests of routing key, exchange, headers and time that both ends know.

The broker skips chunks that cannot have a match (`query`), and sends the others whole; here each
row is tested. What is tested is what a chunk keeps once for many records (its routes, its property
blocks, its time), so a test is done once for each distinct one, and rows are chosen by number.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlencode

from pyspark_warren.errors import InvalidOption

# As many as the broker takes in a request, and as long.
CONDITIONS_MAX: Final = 64
CONDITION_BYTES_MAX: Final = 1_024
# A longer address would be refused, so conditions that make one are tested here alone.
QUERY_BYTES_MAX: Final = 16_384
HEADER_NAME_BYTES_MAX: Final = 255
_UTF8_BYTES_MAX: Final = 4
ONE_WORD: Final = "*"
ANY_WORDS: Final = "#"

TextKind = Literal["pattern", "equal", "prefix", "suffix", "contained"]
HeaderValue = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class TextTest:
    """A routing key, or an exchange, must be like one of these texts."""

    kind: TextKind
    texts: tuple[str, ...]
    is_of_exchange: bool = False

    def holds(self, text: str) -> bool:
        match self.kind:
            case "pattern":
                return any(topic_matches(pattern, text) for pattern in self.texts)
            case "equal":
                return text in self.texts
            case "prefix":
                return text.startswith(self.texts)
            case "suffix":
                return text.endswith(self.texts)
            case "contained":
                return any(part in text for part in self.texts)

    def query(self) -> list[tuple[str, str]]:
        """The test as the broker knows it; empty if it does not."""
        name = {"pattern": "key", "equal": "key", "prefix": "key_prefix"}.get(self.kind)
        is_short = all(len(text) <= CONDITION_BYTES_MAX // _UTF8_BYTES_MAX for text in self.texts)
        if name is None or self.is_of_exchange or len(self.texts) > CONDITIONS_MAX or not is_short:
            return []
        return [(name, text) for text in self.texts]


@dataclass(frozen=True, slots=True)
class HeadersTest:
    """A message must have all of these headers, or any; a value of None stands for all values."""

    headers: tuple[tuple[str, HeaderValue], ...]
    is_any: bool = False

    def holds(self, found: dict[str, object]) -> bool:
        tests = (name in found and _is_same(found[name], value) for name, value in self.headers)
        return any(tests) if self.is_any else all(tests)

    def query(self) -> list[tuple[str, str]]:
        """The broker compares texts alone; of other values it looks whether there are any."""
        wanted = {n: value if isinstance(value, str) else None for n, value in self.headers}
        match = [("header_match", "any")] if self.is_any else []
        return [("headers", json.dumps(wanted, ensure_ascii=False)), *match]


@dataclass(frozen=True, slots=True)
class RowFilter:
    """All of these tests hold of a row that is wanted."""

    keys: tuple[TextTest, ...] = ()
    headers: HeadersTest | None = None
    since_us: int | None = None
    """The first microsecond since 1970 that is wanted."""
    until_us: int | None = None
    """The first that is not wanted any more."""

    @property
    def is_all(self) -> bool:
        """True if every row is wanted."""
        return self == RowFilter()

    @property
    def is_of_time(self) -> bool:
        return self.since_us is not None or self.until_us is not None

    def query(self) -> list[tuple[str, str]]:
        """Parameters for the broker, which may let pass more than this filter does."""
        # Conditions of one kind are alternatives there, so only one test can be told.
        of_keys = (_short(test.query()) for test in self.keys)
        of_headers = [] if self.headers is None else _short(self.headers.query())
        return [*next((query for query in of_keys if query), []), *of_headers]

    def takes_route(self, exchange: str, routing_key: str) -> bool:
        return all(t.holds(exchange if t.is_of_exchange else routing_key) for t in self.keys)


def _short(query: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the conditions if they fit into an address, or none of them."""
    try:
        length = len(urlencode(query))
    except UnicodeEncodeError:  # half of a surrogate pair, which no key has
        return []
    return list(query) if length <= QUERY_BYTES_MAX else []


def topic_matches(pattern: str, key: str) -> bool:
    """True if a topic exchange would route the key by the pattern.

    Read word by word, with all places in the pattern that the words so far can have led to: a
    search that tries one reading after another takes for ever with several `#`.
    """
    words = pattern.split(".") if pattern else []
    places = _entered(words, {0})
    for word in key.split(".") if key else []:
        following = set()
        for place in places:
            if place < len(words):
                if words[place] == ANY_WORDS:
                    following.add(place)
                elif words[place] in (ONE_WORD, word):
                    following.add(place + 1)
        places = _entered(words, following)
    return len(words) in places


def _entered(words: list[str], places: set[int]) -> set[int]:
    """These places, and those behind a `#` that stands for no words."""
    entered = set()
    for first in places:
        place = first
        entered.add(place)
        while place < len(words) and words[place] == ANY_WORDS:
            place += 1
            entered.add(place)
    return entered


def parse_keys(option: str, text: str) -> TextTest:
    """Patterns of routing keys, separated by commas. Raises InvalidOption."""
    patterns = tuple(part.strip() for part in text.split(",") if part.strip())
    if not 0 < len(patterns) <= CONDITIONS_MAX:
        raise InvalidOption(f"option {option}: give 1 to {CONDITIONS_MAX} patterns such as eu.#")
    return TextTest("pattern", patterns)


def parse_headers(option: str, text: str) -> HeadersTest:
    """A JSON object of headers; `x-match` is `all` or `any`. Raises InvalidOption."""
    example = '{"type": "order"}'
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InvalidOption(f"option {option}: is not JSON ({error}), as {example} is") from None
    if not isinstance(given, dict):
        raise InvalidOption(f"option {option}: is no JSON object, as {example} is")
    match = given.pop("x-match", "all")
    if match not in ("all", "any"):
        raise InvalidOption(f"option {option}: x-match is {match!r}, neither all nor any")
    if not 0 < len(given) <= CONDITIONS_MAX:
        raise InvalidOption(f"option {option}: give 1 to {CONDITIONS_MAX} headers, as {example}")
    for name, value in given.items():
        if not 0 < len(name.encode(errors="surrogatepass")) <= HEADER_NAME_BYTES_MAX:
            raise InvalidOption(
                f"option {option}: {name!r} is no name of a header: give 1 to "
                f"{HEADER_NAME_BYTES_MAX} bytes"
            )
        if not isinstance(value, str | int | float | bool | None):
            raise InvalidOption(f"option {option}: {name!r} is no text, number or truth value")
    return HeadersTest(tuple(given.items()), is_any=match == "any")


def _is_same(found: object, wanted: HeaderValue) -> bool:
    if wanted is None:
        return True
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return found == wanted
