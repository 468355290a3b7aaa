"""Sets of bytes that PCRE's classes stand for, as Erlang's `re` has them: ISO Latin-1, not UTF-8.

A set is an integer with bit N for byte N, so that unions and complements are single operations.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

ALL: Final = (1 << 256) - 1


def spans(*ends: int) -> int:
    """Return the set of these spans, given as first, last, first, last and so on."""
    pairs = zip(ends[::2], ends[1::2], strict=True)
    return sum(((1 << (last - first + 1)) - 1) << first for first, last in pairs)


def ranges_of(members: int) -> Iterator[tuple[int, int]]:
    """Spans of a set, ascending: the first and the last byte of each."""
    first = None
    for byte in range(257):
        if members >> byte & 1:
            first = byte if first is None else first
        elif first is not None:
            yield first, byte - 1
            first = None


NEWLINE: Final = 1 << 0x0A
DIGIT: Final = spans(0x30, 0x39)
UPPER: Final = spans(0x41, 0x5A, 0xC0, 0xD6, 0xD8, 0xDE)
LOWER: Final = spans(0x61, 0x7A, 0xAA, 0xAA, 0xB5, 0xB5, 0xBA, 0xBA, 0xDF, 0xF6, 0xF8, 0xFF)
ALPHA: Final = UPPER | LOWER
WORD: Final = ALPHA | DIGIT | 1 << 0x5F
SPACE: Final = spans(0x09, 0x0D, 0x20, 0x20)
HORIZONTAL: Final = spans(0x09, 0x09, 0x20, 0x20, 0xA0, 0xA0)
VERTICAL: Final = spans(0x0A, 0x0D, 0x85, 0x85)
_CONTROL: Final = spans(0x00, 0x1F, 0x7F, 0x9F)
_GRAPH: Final = ALL & ~_CONTROL & ~(1 << 0x20)

POSIX: Final = {
    "alpha": ALPHA,
    "lower": LOWER,
    "upper": UPPER,
    "alnum": ALPHA | DIGIT,
    "ascii": ALL,  # sic: Erlang's tables have it so
    "blank": spans(0x09, 0x09, 0x20, 0x20),
    "cntrl": _CONTROL,
    "digit": DIGIT,
    "graph": _GRAPH,
    "print": _GRAPH | 1 << 0x20,
    "punct": _GRAPH & ~ALPHA & ~DIGIT,
    "space": SPACE,
    "word": WORD,
    "xdigit": spans(0x30, 0x39, 0x41, 0x46, 0x61, 0x66),
}
ESCAPED: Final = {
    "d": DIGIT,
    "D": ALL & ~DIGIT,
    "w": WORD,
    "W": ALL & ~WORD,
    "s": SPACE,
    "S": ALL & ~SPACE,
    "h": HORIZONTAL,
    "H": ALL & ~HORIZONTAL,
    "v": VERTICAL,
    "V": ALL & ~VERTICAL,
}

# Letters whose other case is 0x20 away; the rest of LOWER has no capital in ISO Latin-1.
_CAPITALS: Final = UPPER
_SMALL: Final = UPPER << 0x20


def caseless(members: int) -> int:
    """Return the set with the other case of each of its letters added."""
    return members | (members & _CAPITALS) << 0x20 | (members & _SMALL) >> 0x20


_CATEGORIES: Final = frozenset(
    main + minor
    for main, minors in {
        "C": "cfnos",
        "L": "lmotu",
        "M": "cen",
        "N": "dlo",
        "P": "cdefios",
        "S": "ckmo",
        "Z": "lps",
    }.items()
    for minor in ("", *minors)
)
_LETTERS_OF_TWO_CASES: Final = ("Lu", "Ll", "Lt")
# PCRE's own properties: the categories, and further characters.
_OWN_PROPERTIES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "Any": (tuple("CLMNPSZ"), ""),
    "L&": (_LETTERS_OF_TWO_CASES, ""),
    "Xan": (("L", "N"), ""),
    "Xwd": (("L", "N"), "_"),
    "Xsp": (("Z",), "\t\n\v\f\r\x85"),
    "Xps": (("Z",), "\t\n\v\f\r\x85"),
}


def property_set(name: str) -> int | None:
    r"""Return the bytes with a Unicode property (`\p{Lu}`); None if the property is not known."""
    if name not in _CATEGORIES and name not in _OWN_PROPERTIES:
        return None
    categories, others = _OWN_PROPERTIES.get(name, ((name,), ""))
    return sum(
        1 << byte
        for byte in range(256)
        if unicodedata.category(chr(byte)).startswith(categories) or chr(byte) in others
    )
