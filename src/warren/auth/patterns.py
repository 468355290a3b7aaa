"""RabbitMQ's regular expressions, with Python's engine.

RabbitMQ hands names to PCRE as bytes: the search is unanchored and `.` is one byte of UTF-8. So
we compile bytes too, after rewriting what PCRE spells otherwise and people do use: POSIX classes,
`\\z`, `\\h`, `\\Q..\\E`, named groups. What cannot be rewritten (`\\p{L}`, flags in mid-pattern)
is refused when it is set, never misread later.

Nothing here guards against patterns that take exponential time. Only administrators set patterns,
names are at most 255 bytes and decisions are cached, as in RabbitMQ, where PCRE gives up after a
while and the answer is no.
"""

from __future__ import annotations

import re
import warnings
from typing import Final

_CLASSES: Final = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "word": r"\w",
    "space": r"\s",
    "blank": r" \t",
    "punct": r"!-/:-@\[-`{-~",
    "xdigit": "0-9a-fA-F",
    "cntrl": r"\x00-\x1f\x7f",
    "graph": r"\x21-\x7e",
    "print": r"\x20-\x7e",
    "ascii": r"\x00-\x7f",
}
_ESCAPES: Final = {"z": r"\Z", "Z": r"(?=\n?\Z)", "h": r"[ \t]", "H": r"[^ \t]"}

_TOKEN: Final = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|\Z)"
    r"|\\(?P<escape>.)"
    r"|(?P<named>\(\?<(?![=!]))"
    r"|(?P<set>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\])",
    re.DOTALL,
)
_POSIX_CLASS: Final = re.compile(r"\[:(\^?\w+):\]")

# Stands for "nothing": no resource has an empty name, the default exchange has a name of its own.
_NOTHING: Final = "^$"


class InvalidPattern(ValueError):
    """Not a regular expression, or one that only PCRE understands."""

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"regular expression '{pattern}' is invalid: {reason}")
        self.pattern = pattern
        self.reason = reason


class Pattern:
    """A permission's pattern; an empty one permits nothing."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._compiled = _compile(text or _NOTHING)

    def permits(self, name: str) -> bool:
        return self._compiled.search(name.encode(errors="surrogateescape")) is not None


def _compile(text: str) -> re.Pattern[bytes]:
    try:
        translated = _TOKEN.sub(lambda token: _translate(text, token), text)
        with warnings.catch_warnings():
            # Python warns that `[[` may one day mean something else; it does not in PCRE.
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(translated.encode())
    except (re.error, OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidPattern(text, str(error)) from error


def _translate(text: str, token: re.Match[str]) -> str:
    if (quoted := token["quoted"]) is not None:
        return re.escape(quoted)
    if (escape := token["escape"]) is not None:
        return _ESCAPES.get(escape, token[0])
    if token["named"] is not None:
        return "(?P<"

    def expand(found: re.Match[str]) -> str:
        if found[1] not in _CLASSES:
            raise InvalidPattern(text, f"unknown class [:{found[1]}:]")
        return _CLASSES[found[1]]

    return _POSIX_CLASS.sub(expand, token[0])
