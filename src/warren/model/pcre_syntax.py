"""Syntax of PCRE, parsed as Erlang's `re` does: bytes, ISO Latin-1 classes, PCRE's own complaints.

An own parser, and not a rewriting of the text for some other engine, since every engine reads some
patterns otherwise: `[[:alpha:]]`, `\\z`, `\\h` or `a{,3}` would compile and mean something else.
What is parsed here has one meaning, and engines are handed nothing but that.

A mistake is told in PCRE's words and with its position, since RabbitMQ's texts quote both.
Recursion, subroutines, backtracking verbs and `(*UTF8)` are understood by PCRE and refused here.
"""

from __future__ import annotations

import re
from typing import Final

from warren.model.pcre_bytes import ALL, NEWLINE, caseless
from warren.model.pcre_escapes import ByteEscapes
from warren.model.pcre_nodes import (
    NOTHING,
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
    fixed_length,
)

GROUP_DEPTH_MAX: Final = 100
COMPILED_BYTES_MAX: Final = 65_535
REPETITIONS_MAX: Final = 65_535
NAME_CHARS_MAX: Final = 32

NEVER: Final = OneByte(0)
_LITERALS: Final = tuple(OneByte(1 << byte) for byte in range(256))
_CASELESS_LITERALS: Final = tuple(OneByte(caseless(1 << byte)) for byte in range(256))

_PLAIN: Final = re.compile(r"[A-Za-z0-9_]+(?=[A-Za-z0-9_])")
_COUNTS: Final = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VERB: Final = re.compile(r"\(\*([A-Z_0-9]*)([:=][^)]*)?\)")
_VERBS: Final = re.compile(
    "ACCEPT|COMMIT|MARK|PRUNE|SKIP|THEN|UTF8?|UCP|CR|LF|CRLF|ANYCRLF|ANY|BSR_ANYCRLF|BSR_UNICODE"
    "|LIMIT_MATCH|LIMIT_RECURSION|NO_START_OPT|NO_AUTO_POSSESS"
)
_SUBROUTINE: Final = re.compile(r"\(\?(?:R|[+-]?\d|&|P>)")
_BLANK: Final = frozenset(" \t\n\r\v\f")
_LOOKS: Final = {"=": (True, False), "!": (True, True), "<=": (False, False), "<!": (False, True)}
_PLACES: Final = {
    "A": Where.START,
    "G": Where.START,
    "z": Where.END,
    "Z": Where.LAST_LINE_END,
    "b": Where.BOUNDARY,
    "B": Where.NO_BOUNDARY,
}
_CR, _LF = OneByte(1 << 0x0D), OneByte(1 << 0x0A)
_CLUSTER: Final = Atomic(OneOf((InOrder((_CR, _LF)), OneByte(ALL))))
_ANY_NEWLINE: Final = Atomic(OneOf((InOrder((_CR, _LF)), OneByte((0b1111 << 0x0A) | 1 << 0x85))))


def parse(octets: bytes, is_caseless: bool = False) -> Node:
    """Return what the pattern says; raises Mistake."""
    # To Erlang's engine a pattern ends with the first NUL.
    text = octets.split(b"\0", 1)[0].decode("latin-1")
    flags = "i" if is_caseless else ""
    parser = _Parser(text, flags, {})
    node = parser.whole()
    # A name may be referred to before its group: then its number is known the second time.
    return _Parser(text, flags, parser.names).whole() if parser.has_forward_names else node


class _Parser(ByteEscapes):
    def __init__(self, text: str, flags: str, known_names: dict[str, int]) -> None:
        super().__init__(text)
        self._flags = frozenset(flags)
        self._groups = 0
        self.names: dict[str, int] = {}
        self.has_forward_names = False
        self._known_names = known_names
        self._depth = 0
        self._has_branch_reset = False
        # Groups that something refers to, and where.
        self._referred: list[tuple[int | str, int]] = []

    def whole(self) -> Node:
        node = self._alternatives()
        if self.at < len(self.text):
            self.fail("unmatched parentheses", self.at)
        if compiled_bytes(node) > COMPILED_BYTES_MAX:
            self.fail("regular expression is too large")
        if self._referred and self._has_branch_reset:
            self.unsupported("(?| together with references to groups")
        for group, position in self._referred:
            number = self.names.get(group, 0) if isinstance(group, str) else group
            if not 0 < number <= self._groups:
                self.fail("reference to non-existent subpattern", position)
        return node

    # What stands side by side.

    def _alternatives(self) -> Node:
        branches = [self._branch()]
        while self.text.startswith("|", self.at):
            self.at += 1
            branches.append(self._branch())
        return branches[0] if len(branches) == 1 else OneOf(tuple(branches))

    def _branch(self) -> Node:
        parts: list[Node] = []
        while True:
            self._take_plain(parts)
            self._skip_ignored()
            if self.at >= len(self.text) or self.text[self.at] in "|)":
                return parts[0] if len(parts) == 1 else InOrder(tuple(parts))
            counts = self._counts()
            if counts is not None:
                self.fail("nothing to repeat", self.at - 1)
            found = self._next(parts)
            if found is None or isinstance(found, Place):
                parts += [] if found is None else [found]
                continue
            self._skip_ignored()
            counts = self._counts()
            parts.append(found if counts is None else self._repeated(found, *counts))

    def _take_plain(self, parts: list[Node]) -> None:
        """Take letters and digits up to the last before something else, which may be repeated."""
        found = _PLAIN.match(self.text, self.at)
        if found is not None:
            literals = _CASELESS_LITERALS if "i" in self._flags else _LITERALS
            parts += [literals[ord(char)] for char in found[0]]
            self.at = found.end()

    def _skip_ignored(self) -> None:
        """Pass over what may stand between an item and its quantifier."""
        text = self.text
        while self.at < len(text):
            if text.startswith("\\E", self.at):
                self.at += 2
            elif text.startswith("\\Q\\E", self.at):
                self.at += 4
            elif text.startswith("(?#", self.at):
                end = text.find(")", self.at)
                if end < 0:
                    self.fail("missing ) after comment")
                self.at = end + 1
            elif "x" in self._flags and text[self.at] in _BLANK:
                self.at += 1
            elif "x" in self._flags and text[self.at] == "#":
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end + 1
            else:
                return

    # How often.

    def _counts(self) -> tuple[int, int | None] | None:
        """Take a quantifier: the least and the most; None if there is none here."""
        char = self.text[self.at : self.at + 1]
        if char and char in "*+?":
            self.at += 1
            return (1 if char == "+" else 0), (1 if char == "?" else None)
        found = _COUNTS.match(self.text, self.at) if char == "{" else None
        if found is None:
            return None
        for group in (1, 3):
            if found[group] and (len(found[group]) > 5 or int(found[group]) > REPETITIONS_MAX):
                self.fail("number too big in {} quantifier", found.end(group))
        least = int(found[1])
        most = least if found[2] is None else int(found[3]) if found[3] else None
        if most is not None and most < least:
            self.fail("numbers out of order in {} quantifier", found.end() - 1)
        self.at = found.end()
        return least, most

    def _repeated(self, node: Node, least: int, most: int | None) -> Node:
        self._skip_ignored()
        eagerness = Eagerness.LAZY if "U" in self._flags else Eagerness.GREEDY
        if self.text.startswith("+", self.at):
            eagerness = Eagerness.POSSESSIVE
            self.at += 1
        elif self.text.startswith("?", self.at):
            lazy = eagerness is Eagerness.GREEDY
            eagerness = Eagerness.LAZY if lazy else Eagerness.GREEDY
            self.at += 1
        if isinstance(node, Look):  # to look a second time changes nothing
            return node if least else Repeat(node, 0, 1, eagerness)
        return Repeat(node, least, most, eagerness)

    # One item.

    def _next(self, parts: list[Node]) -> Node | None:
        """Take one item; None if it matches nothing by itself. `parts` gets what comes before."""
        char = self.text[self.at]
        match char:
            case "(":
                return self._group()
            case "[":
                return self._bracketed()
            case "\\":
                return self._quoted(parts) or self._escaped()
        self.at += 1
        match char:
            case ".":
                return OneByte(ALL if "s" in self._flags else ALL & ~NEWLINE)
            case "^":
                return Place(Where.LINE_START if "m" in self._flags else Where.START)
            case "$":
                return Place(Where.LINE_END if "m" in self._flags else Where.LAST_LINE_END)
        return self._literal(ord(char))

    def _literal(self, byte: int) -> OneByte:
        return _CASELESS_LITERALS[byte] if "i" in self._flags else _LITERALS[byte]

    def _folded(self, members: int) -> int:
        return caseless(members) if "i" in self._flags else members

    def _quoted(self, parts: list[Node]) -> Node | None:
        if not self.text.startswith("\\Q", self.at):
            return None
        end = self.text.find("\\E", self.at)
        quoted = self.text[self.at + 2 : end if end >= 0 else len(self.text)]
        self.at = len(self.text) if end < 0 else end + 2
        literals = [self._literal(ord(char)) for char in quoted]
        parts += literals[:-1]
        return literals[-1] if literals else NOTHING

    def _escaped(self) -> Node | None:
        char = self.text[self.at + 1 : self.at + 2]
        if char and char in _PLACES:
            self.at += 2
            return Place(_PLACES[char])
        if char and char in "XRCKN":
            return self._special_escape(char)
        if char and char in "gk":
            return self._reference(char)
        number = self.group_number(self._groups)
        if number is not None:
            return self._refer(number, len(self.text))
        byte, members = self.byte_escape("X" in self._flags)
        if members is not None:
            return OneByte(members)
        return self._literal(byte)

    def _special_escape(self, char: str) -> Node | None:
        self.at += 2
        is_name = self.text.startswith("{", self.at) and not _COUNTS.match(self.text, self.at)
        if char == "N" and is_name:
            self.fail(r"PCRE does not support \L, \l, \N{name}, \U, or \u", self.at - 1)
        if char == "K":  # moves the beginning of the match, which nobody asks for
            return None
        nodes: dict[str, Node] = {
            "X": _CLUSTER,
            "R": _ANY_NEWLINE,
            "C": OneByte(ALL),
            "N": OneByte(ALL & ~NEWLINE),
        }
        return nodes[char]

    # References.

    def _reference(self, char: str) -> Node:
        r"""Take `\k<name>`, `\g{2}`, `\g-1` and the like."""
        self.at += 2
        opening = self.text[self.at : self.at + 1]
        closing = {"<": ">", "'": "'", "{": "}"}.get(opening, "")
        if char == "g":
            if closing in {">", "'"}:
                self.unsupported("a subroutine")
            found = re.compile(r"\{([+-]?\d+)\}|([+-]?\d+)").match(self.text, self.at)
            if found is not None:
                self.at = found.end()
                return self._refer(self._absolute(found[1] or found[2]), len(self.text))
            if not closing:
                self.fail("a numbered reference must not be zero", self.at - 1)
        elif not closing:
            reason = r"\k is not followed by a braced, angle-bracketed, or quoted name"
            self.fail(reason, self.at - 1)
        self.at += 1
        name = self._name(closing)
        return self._refer(name, self.at - 1)

    def _absolute(self, text: str) -> int:
        if text[0] == "-":
            return self._groups + 1 - int(text[1:])
        return self._groups + int(text[1:]) if text[0] == "+" else int(text)

    def _name(self, closing: str) -> str:
        found = _NAME.match(self.text, self.at)
        if found is None:
            here = self.text[self.at : self.at + 1]
            digit = "group name must start with a non-digit"
            self.fail(digit if here.isdigit() else "subpattern name expected", self.at)
        if len(found[0]) > NAME_CHARS_MAX:
            longest = f"subpattern name is too long (maximum {NAME_CHARS_MAX} characters)"
            self.fail(longest, found.end())
        if not self.text.startswith(closing, found.end()):
            self.fail("syntax error in subpattern name (missing terminator)", found.end())
        self.at = found.end() + len(closing)
        return found[0]

    def _refer(self, group: int | str, position: int) -> Node:
        return BackReference(self._number(group, position), "i" in self._flags)

    def _number(self, group: int | str, position: int) -> int:
        self._referred.append((group, position))
        if isinstance(group, int):
            return group
        number = self.names.get(group) or self._known_names.get(group, 0)
        self.has_forward_names = self.has_forward_names or not number
        return number

    # Groups.

    def _group(self) -> Node | None:
        text, start = self.text, self.at
        if text.startswith("(*", start) and text[start + 2 : start + 3].replace(":", "A").isalpha():
            return self._verb()
        if not text.startswith("(?", start):
            self.at += 1
            return self._captured()
        if _SUBROUTINE.match(text, start):
            self.unsupported("recursion")
        self.at += 2
        rest = text[self.at : self.at + 2]
        for opening, (is_ahead, is_negative) in _LOOKS.items():
            if rest.startswith(opening):
                self.at += len(opening)
                return self._look(is_ahead, is_negative)
        match rest[:1]:
            case ":":
                self.at += 1
                return self._inside()
            case ">":
                self.at += 1
                return Atomic(self._inside())
            case "|":
                self.at += 1
                self._has_branch_reset = True
                return self._inside()
            case "(":
                return self._conditional()
            case "C":
                self._skip_callout()
                return None
            case "<" | "'" | "P":
                return self._named(rest)
        return self._options()

    def _inside(self) -> Node:
        """Take what is in a group, and its closing parenthesis; options end with it."""
        self._depth += 1
        if self._depth > GROUP_DEPTH_MAX:
            self.fail("parentheses are too deeply nested", self.at)
        flags = self._flags
        node = self._alternatives()
        self._flags = flags
        if not self.text.startswith(")", self.at):
            self.fail("missing )")
        self.at += 1
        self._depth -= 1
        # A place cannot be repeated, and a group that has nothing else can.
        return InOrder((node,)) if isinstance(node, Place) else node

    def _captured(self) -> Node:
        self._groups += 1
        return Capture(self._inside())

    def _look(self, is_ahead: bool, is_negative: bool) -> Node:
        body = self._inside()
        if not is_ahead:
            branches = body.branches if isinstance(body, OneOf) else (body,)
            if any(fixed_length(branch) is None for branch in branches):
                self.fail("lookbehind assertion is not fixed length", self.at - 1)
        return Look(body, is_ahead, is_negative)

    def _named(self, rest: str) -> Node:
        if rest == "P=":
            self.at += 2
            name = self._name(")")
            return self._refer(name, self.at - 1)
        if rest[0] == "P" and rest != "P<":
            self.fail("unrecognized character after (?P", self.at + 1)
        self.at += 2 if rest == "P<" else 1
        here = self.text[self.at : self.at + 1]
        if rest[0] == "<" and not (here.isalnum() or here == "_"):
            self.fail("unrecognized character after (?<", self.at)
        if here == "":
            self.fail("syntax error in subpattern name (missing terminator)", self.at)
        name = self._name("'" if rest[0] == "'" else ">")
        if name in self.names:
            if "J" in self._flags:
                self.unsupported("two groups of the same name")
            self.fail("two named subpatterns have the same name", self.at - 1)
        self.names[name] = self._groups + 1
        return self._captured()

    def _conditional(self) -> Node:
        start = self.at
        if any(self.text.startswith(f"(?{look}", start) for look in _LOOKS):
            look = self._group()
            assert isinstance(look, Look), "it begins so"
            then, otherwise = self._two_branches()
            unlike = Look(look.body, look.is_ahead, not look.is_negative)
            return OneOf((InOrder((look, then)), InOrder((unlike, otherwise))))
        found = re.compile(r"\((?:([+-]?\d+)|<(\w+)>|'(\w+)'|(\w+))\)").match(self.text, start)
        if found is None:
            self.fail("malformed number or name after (?(")
        name = found[2] or found[3] or found[4]
        if name is not None and re.fullmatch(r"R\d*|R&.*|DEFINE", name):
            self.unsupported("recursion")
        self.at = found.end()
        condition: int | str = self._absolute(found[1]) if found[1] else name
        number = self._number(condition, found.end())
        return IfCaptured(number, *self._two_branches())

    def _two_branches(self) -> tuple[Node, Node]:
        body = self._inside()
        branches = body.branches if isinstance(body, OneOf) else (body,)
        if len(branches) > 2:
            self.fail("conditional group contains more than two branches", self.at - 1)
        return branches[0], (branches[1] if len(branches) == 2 else NOTHING)

    def _skip_callout(self) -> None:
        found = re.compile(r"C(\d*)\)").match(self.text, self.at)
        if found is None:
            self.fail("closing ) for (?C expected")
        if int(found[1] or 0) > 255:
            self.fail("number after (?C is > 255", found.end() - 1)
        self.at = found.end()

    def _options(self) -> Node | None:
        """Take `(?i)`, which holds to the end of the group around, or `(?i-x:...)`."""
        found = re.compile(r"([imsxUJX]*)(?:-([imsxUJX]*))?").match(self.text, self.at)
        assert found is not None, "it may be empty"
        ending = self.text[found.end() : found.end() + 1]
        if ending not in {")", ":"}:
            self.fail("unrecognized character after (? or (?-", found.end())
        self.at = found.end() + 1
        before = self._flags
        self._flags = (before | {*found[1]}) - {*(found[2] or "")}
        if ending == ")":
            return None
        node = self._inside()
        self._flags = before
        return node

    def _verb(self) -> Node:
        found = _VERB.match(self.text, self.at)
        if found is not None and found[1] in {"F", "FAIL"}:
            self.at = found.end()
            return NEVER
        if found is not None and (_VERBS.fullmatch(found[1]) or (found[2] and not found[1])):
            self.unsupported(found[0])
        end = self.text.find(")", self.at)
        return self.fail("(*VERB) not recognized or malformed", len(self.text) if end < 0 else end)

    # Classes.

    def _bracketed(self) -> Node:
        found = self.posix_like()
        if found is not None:
            only_within = "POSIX named classes are supported only within a class"
            collating = "POSIX collating elements are not supported"
            self.fail(only_within if found[1] == ":" else collating, self.at)
        self.at += 1
        is_negated = self.text.startswith("^", self.at)
        self.at += is_negated
        members = self._folded(self.class_members("i" in self._flags))
        return OneByte(ALL & ~members if is_negated else members)
