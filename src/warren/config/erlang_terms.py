"""Erlang terms of a configuration file, as in rabbitmq.config and advanced.config.

The reader is strict and knows just what such a file consists of: atoms, strings, binaries of text,
numbers, tuples, lists and comments, with one dot at the end. Each term keeps its line and column,
so that a complaint about its value can name the place, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn, TypeAlias

DEPTH_MAX: Final = 100

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|%[^\n]*)
    |(?P<float>[+-]?\d+\.\d+(?:[eE][+-]?\d+)?)
    |(?P<based>[+-]?\d{1,2}\#[0-9A-Za-z]+)
    |(?P<integer>[+-]?\d+(?:_\d+)*)
    |(?P<atom>[a-z][\w@]*)
    |(?P<variable>[A-Z_][\w@]*)
    |(?P<quoted>'(?:[^'\\\n]|\\.)*')
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<mark><<|>>|[\[\]{},./|\#])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:x\{(?P<long>[0-9A-Fa-f]+)\}|x(?P<short>[0-9A-Fa-f]{2})|(?P<octal>[0-7]{1,3})|(?P<one>.))",
    re.DOTALL,
)
_ESCAPED: Final = {
    "b": "\b", "d": "\x7f", "e": "\x1b", "f": "\f", "n": "\n",
    "r": "\r", "s": " ", "t": "\t", "v": "\v",
}  # fmt: skip
_UNICODE_END: Final = 0x110000
_BASES: Final = range(2, 37)
_SHOWN_CHARS_MAX: Final = 20


class ErlangSyntaxError(Exception):
    """The text is not made of Erlang terms. The message has line, column and what to do."""


class Position(NamedTuple):
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Atom:
    at: Position
    name: str


@dataclass(frozen=True, slots=True)
class Text:
    """A string, or a binary that was written as one."""

    at: Position
    text: str


@dataclass(frozen=True, slots=True)
class Number:
    at: Position
    value: int | float
    written: str
    """The number as the file has it, without the marks that Erlang allows between digits."""


@dataclass(frozen=True, slots=True)
class TupleTerm:
    at: Position
    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class ListTerm:
    at: Position
    items: tuple[Term, ...]


Term: TypeAlias = Atom | Text | Number | TupleTerm | ListTerm


class _Token(NamedTuple):
    kind: str
    text: str
    at: Position


def read_erlang_term(content: str) -> Term:
    """Return the one list that the text consists of. Raises ErlangSyntaxError."""
    reader = _TermReader(_tokens(content))
    reader.begin()
    term = reader.term(0)
    reader.end()
    return term


def read_any_term(content: str) -> Term:
    """Return the one term that a text consists of, with or without a dot at its end."""
    reader = _TermReader(_tokens(content if content.rstrip().endswith(".") else f"{content}."))
    term = reader.term(0)
    reader.end()
    return term


def written(term: Term) -> str:
    """Return a term as text that `read_any_term` reads."""
    match term:
        case Atom(_, name):
            return _quoted(name, "'")
        case Text(_, text):
            return _quoted(text, '"')
        case Number():
            return term.written
        case TupleTerm(_, items):
            return f"{{{', '.join(map(written, items))}}}"
        case ListTerm(_, items):
            return f"[{', '.join(map(written, items))}]"


def _quoted(text: str, quote: str) -> str:
    escaped = text.replace("\\", "\\\\").replace(quote, f"\\{quote}").replace("\n", "\\n")
    return f"{quote}{escaped}{quote}"


def _tokens(content: str) -> Iterator[_Token]:
    offset, line, line_start = 0, 1, 0
    while offset < len(content):
        at = Position(line, offset - line_start + 1)
        match = _TOKEN.match(content, offset)
        if match is None:
            _fail_to_scan(content[offset], at)
        text = match[0]
        offset = match.end()
        if (newlines := text.count("\n")) > 0:
            line += newlines
            line_start = offset - (len(text) - text.rindex("\n") - 1)
        if match.lastgroup != "space":
            assert match.lastgroup is not None
            yield _Token(match.lastgroup, text, at)
    yield _Token("end", "", Position(line, offset - line_start + 1))


def _fail_to_scan(character: str, at: Position) -> NoReturn:
    if character == '"':
        _fail(at, 'this string has no end in its line: add the closing "')
    if character == "'":
        _fail(at, "this quoted atom has no end in its line: add the closing '")
    _fail(at, f"expected an Erlang term, got '{character}': remove it, or quote the text with \"")


class _TermReader:
    def __init__(self, tokens: Iterator[_Token]) -> None:
        self._tokens = tokens
        self._next = next(tokens)

    def begin(self) -> None:
        if self._next.text != "[":
            self._fail("'[' at the beginning", "write [{rabbit, [{Key, Value}, ...]}].")

    def end(self) -> None:
        """Read the dot after the last term, and the end of the file."""
        if self._next.text != ".":
            self._fail("'.' after the term", "end the file with ]. and nothing behind it")
        self._take()
        if self._next.kind != "end":
            self._fail("the end of the file after '.'", "put everything into one list: [...].")

    def term(self, depth: int) -> Term:
        kind, text, at = self._next
        if depth > DEPTH_MAX:
            _fail(at, f"nested deeper than {DEPTH_MAX}: this is no configuration")
        match kind, text:
            case "atom" | "quoted", _:
                self._take()
                return Atom(at, text if kind == "atom" else _unescaped(text, at))
            case "string", _:
                return Text(at, self._string())
            case "integer" | "float" | "based", _:
                self._take()
                return _number(kind, text, at)
            case "mark", "<<":
                return self._binary(at)
            case "mark", "{":
                return TupleTerm(at, self._items("}", depth))
            case "mark", "[":
                return ListTerm(at, self._items("]", depth))
            case "variable", _:
                self._fail("a term", f"write '{text}' in single quotes, or \"{text}\" for a text")
            case "mark", "#":
                self._fail("a term", "maps are not used in configurations: write a list of {K, V}")
        raise self._failure("a term", 'such as an atom, a number, "text", {Key, Value} or [...]')

    def _items(self, closing: str, depth: int) -> tuple[Term, ...]:
        opened = self._take()
        items: list[Term] = []
        while self._next.text != closing or self._next.kind != "mark":
            if self._next.kind == "end":
                _fail(opened.at, f"this '{opened.text}' is never closed: add '{closing}'")
            items.append(self.term(depth + 1))
            if self._next.kind == "mark" and self._next.text == ",":
                self._take()
                if self._next.kind == "mark" and self._next.text in ("]", "}"):
                    self._fail("a term after ','", "remove the comma before it")
            elif self._next.kind != "end" and self._next.text != closing:
                self._fail(f"',' or '{closing}'", self._advice(closing))
        self._take()
        return tuple(items)

    def _advice(self, closing: str) -> str:
        if self._next.text in ("]", "}", "."):
            return f"close what began with '{'[' if closing == ']' else '{'}' first"
        return "a comma is missing before it"

    def _string(self) -> str:
        """Neighbouring strings are one, as in Erlang."""
        parts = []
        while self._next.kind == "string":
            token = self._take()
            parts.append(_unescaped(token.text, token.at))
        return "".join(parts)

    def _binary(self, at: Position) -> Text:
        self._take()
        text = ""
        if self._next.kind == "string":
            text = self._string()
            if self._next.text == "/":
                self._take()
                if self._take().text != "utf8":
                    _fail(at, 'expected <<"text"/utf8>>: other types of binaries are not read')
        if self._next.text != ">>":
            self._fail("'>>'", 'a binary is written <<"text">>')
        self._take()
        return Text(at, text)

    def _take(self) -> _Token:
        taken = self._next
        if taken.kind != "end":
            self._next = next(self._tokens)
        return taken

    def _fail(self, expected: str, advice: str) -> NoReturn:
        raise self._failure(expected, advice)

    def _failure(self, expected: str, advice: str) -> ErlangSyntaxError:
        kind, text, at = self._next
        # A text may be a password, so it is not repeated.
        if kind == "end":
            found = "the end of the file"
        elif kind == "string":
            found = "a string"
        else:
            found = f"'{text[:_SHOWN_CHARS_MAX]}'"
        return _error(at, f"expected {expected}, got {found}: {advice}")


def _fail(at: Position, problem: str) -> NoReturn:
    raise _error(at, problem)


def _error(at: Position, problem: str) -> ErlangSyntaxError:
    return ErlangSyntaxError(f"{at.line}:{at.column}: {problem}")


def _number(kind: str, text: str, at: Position) -> Number:
    if kind == "float":
        return Number(at, float(text), text)
    if kind == "integer":
        plain = text.replace("_", "")
        return Number(at, int(plain), plain)
    base, _, digits = text.lstrip("+-").partition("#")
    try:
        value = int(digits, int(base)) if int(base) in _BASES else None
    except ValueError:
        value = None
    if value is None:
        _fail(at, f"expected a number such as 16#FF, got '{text}': use digits of that base")
    value = -value if text.startswith("-") else value
    return Number(at, value, str(value))


def _unescaped(quoted: str, at: Position) -> str:
    def replaced(match: re.Match[str]) -> str:
        if match["one"]:
            return _ESCAPED.get(match["one"], match["one"])
        code = (
            int(match["octal"], 8) if match["octal"] else int(match["long"] or match["short"], 16)
        )
        if code >= _UNICODE_END:
            _fail(at, f"there is no character {match[0]}: write the character itself")
        return chr(code)

    return _ESCAPE.sub(replaced, quoted[1:-1])
