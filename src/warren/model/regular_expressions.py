"""RabbitMQ's regular expressions, with Python's engine.

RabbitMQ hands names to PCRE as bytes: the search is unanchored and `.` is one byte of UTF-8. So
we compile bytes too, after rewriting what PCRE spells otherwise and people do use: POSIX classes,
`\\z`, `\\h`, `\\Q..\\E`, named groups. What cannot be rewritten (`\\p{L}`, flags in mid-pattern)
is refused when it is set, never misread later.

A mistake is told in PCRE's words where it is one of the common ones, since RabbitMQ's texts quote
them.

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

_AT_THE_END: Final = None
# What Python calls a mistake, by how its text begins; what PCRE calls it, and how much further on
# it notices.
_PCRE_REASONS: Final = {
    "missing )": ("missing )", _AT_THE_END),
    "unterminated character set": ("missing terminating ] for character class", _AT_THE_END),
    "nothing to repeat": ("nothing to repeat", 0),
    "multiple repeat": ("nothing to repeat", 0),
    "min repeat greater": ("numbers out of order in {} quantifier", 3),
    "bad escape (end": ("\\ at end of pattern", _AT_THE_END),
    "bad character range": ("range out of order in character class", 2),
    "unbalanced parenthesis": ("unmatched parentheses", 0),
    "unknown extension": ("unrecognized character after (? or (?-", 1),
    "missing >": ("syntax error in subpattern name (missing terminator)", _AT_THE_END),
    "missing group name": ("syntax error in subpattern name (missing terminator)", _AT_THE_END),
    "invalid group reference": ("reference to non-existent subpattern", _AT_THE_END),
    "look-behind requires": ("lookbehind assertion is not fixed length", 0),
}


class InvalidPattern(ValueError):
    """Not a regular expression, or one that only PCRE understands."""

    def __init__(self, pattern: str, reason: str, position: int = 0) -> None:
        super().__init__(f"regular expression '{pattern}' is invalid: {reason}")
        self.pattern = pattern
        self.reason = reason
        self.position = position


def compile_pattern(text: str) -> re.Pattern[bytes]:
    """To be searched for in the bytes of a name. Raises InvalidPattern."""
    try:
        translated = _TOKEN.sub(lambda token: _translate(text, token), text)
        with warnings.catch_warnings():
            # Python warns that `[[` may one day mean something else; it does not in PCRE.
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(translated.encode())
    except re.error as error:
        raise InvalidPattern(text, *_in_words_of_pcre(text, error)) from error
    except (OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidPattern(text, str(error)) from error


def matches(pattern: re.Pattern[bytes], name: str) -> bool:
    return pattern.search(name.encode(errors="surrogateescape")) is not None


def _in_words_of_pcre(text: str, error: re.error) -> tuple[str, int]:
    position = error.pos or 0
    for beginning, (reason, further) in _PCRE_REASONS.items():
        if error.msg.startswith(beginning):
            return reason, len(text.encode()) if further is _AT_THE_END else position + further
    return error.msg, position


def _translate(text: str, token: re.Match[str]) -> str:
    if (quoted := token["quoted"]) is not None:
        return re.escape(quoted)
    if (escape := token["escape"]) is not None:
        return _ESCAPES.get(escape, token[0])
    if token["named"] is not None:
        return "(?P<"

    def expand(found: re.Match[str]) -> str:
        if found[1] not in _CLASSES:
            raise InvalidPattern(text, "unknown POSIX class name", token.start() + found.start(1))
        return _CLASSES[found[1]]

    return _POSIX_CLASS.sub(expand, token[0])
