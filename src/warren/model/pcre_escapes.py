"""Escapes of PCRE's syntax, and what is between brackets: everything that stands for one byte."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from warren.model.pcre_bytes import ALL, ALPHA, ESCAPED, POSIX, property_set, spans

_CONTROLS: Final = {"a": 0x07, "e": 0x1B, "f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09}
_OCTAL: Final = re.compile(r"[0-7]{1,3}")
_HEX: Final = re.compile(r"[0-9A-Fa-f]{0,2}")
_PROPERTY: Final = re.compile(r"\{(\^?)([^}]*)\}|([A-Za-z])")
_POSIX_LIKE: Final = re.compile(r"\[([:.=])((?:\\.|[^\]\\])*?)\1\]", re.DOTALL)


class Mistake(ValueError):
    """Something that is no regular expression: PCRE's reason, and where it was noticed."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


class ByteEscapes:
    """A text and a place in it: the part of the parser that takes single bytes and sets of them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, reason: str, position: int | None = None) -> NoReturn:
        """Raise Mistake; it was noticed at the end unless a position is given."""
        raise Mistake(reason, len(self.text) if position is None else position)

    def unsupported(self, construct: str) -> NoReturn:
        self.fail(f"{construct} is not supported by Warren (PCRE would take it)", self.at)

    def posix_like(self) -> re.Match[str] | None:
        """Read what looks like a POSIX class or a collating element."""
        return _POSIX_LIKE.match(self.text, self.at)

    def group_number(self, groups: int) -> int | None:
        r"""Take `\1`; None if the digits are no reference, given so many groups up to here."""
        found = re.compile(r"\\([1-9][0-9]*)").match(self.text, self.at)
        if found is None or len(found[1]) > 5:
            return None
        number = int(found[1])
        if number < 8 or number <= groups:
            self.at = found.end()
            return number
        return None

    def byte_escape(self, is_strict: bool = False) -> tuple[int, int | None]:
        """Take an escape: a byte and None, or (for `\\d` and the like) a set of bytes."""
        self.at += 1
        if self.at >= len(self.text):
            self.fail("\\ at end of pattern")
        char = self.text[self.at]
        self.at += 1
        if char in ESCAPED:
            return 0, ESCAPED[char]
        if char in "pP":
            return 0, self._property(is_negated=char == "P")
        if char in _CONTROLS:
            return _CONTROLS[char], None
        if char.isascii() and char.isdigit():
            return self._octal(), None
        match char:
            case "x":
                return self._hex(), None
            case "o":
                return self._braced_octal(), None
            case "c":
                return self._control(), None
            case "L" | "l" | "U" | "u":
                self.fail(r"PCRE does not support \L, \l, \N{name}, \U, or \u", self.at - 1)
        if is_strict and char.isascii() and char.isalnum():
            self.fail("unrecognized character follows \\", self.at - 1)
        return ord(char), None

    def _octal(self) -> int:
        self.at -= 1
        found = _OCTAL.match(self.text, self.at)
        if found is None:  # \8 and \9 are themselves
            self.at += 1
            return ord(self.text[self.at - 1])
        self.at = found.end()
        if int(found[0], 8) > 0xFF:
            reason = r"octal value is greater than \377 in 8-bit non-UTF-8 mode"
            self.fail(reason, self.at - 1)
        return int(found[0], 8)

    def _braced_octal(self) -> int:
        if not self.text.startswith("{", self.at):
            self.fail(r"missing opening brace after \o", self.at - 1)
        if self.text.startswith("{}", self.at):
            self.fail(r"digits missing in \x{} or \o{}", self.at - 1)
        return self._braced("01234567", 8, r"non-octal character in \o{} (closing brace missing?)")

    def _hex(self) -> int:
        if not self.text.startswith("{", self.at):
            found = _HEX.match(self.text, self.at)
            assert found is not None, "it may be empty"
            self.at = found.end()
            return int(found[0] or "0", 16)
        if self.text.startswith("{}", self.at):
            self.fail(r"digits missing in \x{} or \o{}", self.at + 1)
        reason = r"non-hex character in \x{} (closing brace missing?)"
        return self._braced("0123456789abcdefABCDEF", 16, reason)

    def _braced(self, digits: str, base: int, reason: str) -> int:
        first = end = self.at + 1
        while end < len(self.text) and self.text[end] in digits:
            end += 1
        if not self.text.startswith("}", end):
            self.fail(reason, end)
        if len(self.text[first:end].lstrip("0")) > 4 or int(self.text[first:end], base) > 0xFF:
            self.fail(r"character value in \x{} or \o{} is too large", end)
        self.at = end + 1
        return int(self.text[first:end], base)

    def _control(self) -> int:
        if self.at >= len(self.text):
            self.fail(r"\c at end of pattern")
        char = self.text[self.at]
        if not char.isascii():
            self.fail(r"\c must be followed by an ASCII character", self.at)
        self.at += 1
        return ord(char.upper()) ^ 0x40

    def _property(self, is_negated: bool) -> int:
        if self.at >= len(self.text):
            self.fail(r"malformed \P or \p sequence")
        found = _PROPERTY.match(self.text, self.at)
        if found is None:
            is_open = self.text[self.at] == "{"
            unknown = r"unknown property name after \P or \p"
            self.fail(r"malformed \P or \p sequence" if is_open else unknown)
        members = property_set(found[2] if found[3] is None else found[3])
        if members is None:
            self.fail(r"unknown property name after \P or \p", found.end() - 1)
        self.at = found.end()
        return ALL & ~members if is_negated != bool(found[1]) else members

    # What is between brackets.

    def class_members(self, is_caseless: bool) -> int:
        """Take all up to the closing bracket, and return the bytes that it names."""
        members = 0
        is_first = True
        while True:
            self._skip_empty_quotes()
            if self.at >= len(self.text):
                self.fail("missing terminating ] for character class")
            if self.text[self.at] == "]" and not is_first:
                self.at += 1
                return members
            is_first = False
            byte, found = self._class_item(is_caseless)
            members |= self._range_from(byte) if found is None else found

    def _skip_empty_quotes(self) -> None:
        while self.text.startswith(("\\E", "\\Q\\E"), self.at):
            self.at += 2 if self.text.startswith("\\E", self.at) else 4

    def _class_item(self, is_caseless: bool) -> tuple[int, int | None]:
        if self.text.startswith("\\Q", self.at):
            return 0, self._quoted_members()
        posix = self.posix_like()
        if posix is not None:
            return 0, self._posix(posix, is_caseless)
        return self._class_byte()

    def _class_byte(self) -> tuple[int, int | None]:
        char = self.text[self.at]
        if char != "\\":
            self.at += 1
            return ord(char), None
        following = self.text[self.at + 1 : self.at + 2]
        if following == "b":
            self.at += 2
            return 0x08, None
        if following == "N":
            self.fail(r"\N is not supported in a class", self.at + 1)
        return self.byte_escape()

    def _quoted_members(self) -> int:
        end = self.text.find("\\E", self.at)
        if end < 0:
            self.fail("missing terminating ] for character class")
        quoted = self.text[self.at + 2 : end]
        self.at = end + 2
        members = 0
        for char in quoted[:-1]:
            members |= 1 << ord(char)
        return members | self._range_from(ord(quoted[-1]))

    def _posix(self, found: re.Match[str], is_caseless: bool) -> int:
        if found[1] != ":":
            self.fail("POSIX collating elements are not supported", self.at)
        name = found[2].removeprefix("^")
        if name not in POSIX:
            self.fail("unknown POSIX class name", self.at + 2)
        self.at = found.end()
        members = ALPHA if is_caseless and name in {"upper", "lower"} else POSIX[name]
        return ALL & ~members if found[2].startswith("^") else members

    def _range_from(self, first: int) -> int:
        """Take `-z` if it is here: the bytes from the one just taken on."""
        self._skip_empty_quotes()
        if not self.text.startswith("-", self.at):
            return 1 << first
        hyphen = self.at
        self.at += 1
        self._skip_empty_quotes()
        if self.at >= len(self.text) or self.text[self.at] == "]":
            self.at = hyphen + 1
            return 1 << first | 1 << ord("-")
        if self.posix_like() is not None:
            self.fail("invalid range in character class", self.at)
        if self.text.startswith("\\Q", self.at):
            if not self.text.startswith("\\E", self.at + 3):
                self.unsupported("a range that ends with more than one quoted character")
            last, found = ord(self.text[self.at + 2]), None
            self.at += 5
        else:
            last, found = self._class_byte()
        if found is not None:
            self.fail("invalid range in character class", self.at - 1)
        if last < first:
            self.fail("range out of order in character class", self.at - 1)
        return spans(first, last)
