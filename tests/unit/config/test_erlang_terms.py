"""Reading Erlang terms: what is understood, and what a person is told when it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.config.erlang_terms import (
    DEPTH_MAX,
    Atom,
    ErlangSyntaxError,
    ListTerm,
    Number,
    Term,
    Text,
    TupleTerm,
    read_erlang_term,
)


def plain(term: Term) -> object:
    """Without places: atoms as themselves, lists as lists, tuples as tuples."""
    match term:
        case Atom(_, name):
            return Atom, name
        case Text(_, text):
            return text
        case Number(_, value, _):
            return value
        case TupleTerm(_, items):
            return tuple(map(plain, items))
        case ListTerm(_, items):
            return [plain(item) for item in items]


def read(content: str) -> object:
    return plain(read_erlang_term(content))


def complaint(content: str) -> str:
    with pytest.raises(ErlangSyntaxError) as caught:
        read_erlang_term(content)
    return str(caught.value)


def test_every_kind_of_term_is_read() -> None:
    content = """%% -*- mode: erlang -*-
    [ atom, rabbit@host_1, 'PLAIN', 'a\\'b', "text", <<"bytes">>, <<>>, <<"ä"/utf8>>, % comment
      5672, -3, 1_000, 16#fF, 0.4, 1.5e3, {}, {a, [b]}, []
    ].
    """
    assert read(content) == [
        (Atom, "atom"), (Atom, "rabbit@host_1"), (Atom, "PLAIN"), (Atom, "a'b"),
        "text", "bytes", "", "ä", 5672, -3, 1000, 255, 0.4, 1500.0, (),
        ((Atom, "a"), [(Atom, "b")]), [],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r'"a\"b"', 'a"b'),
        (r'"\\d+"', r"\d+"),
        (r'"tab\tnew\nline"', "tab\tnew\nline"),
        (r'"\x41\x{1F430}\101"', "A\U0001f430A"),
        ('"one " "and"\n" two"', "one and two"),
        ('"50%"', "50%"),
    ],
)
def test_escapes_and_neighbours_of_strings_are_erlangs(written: str, text: str) -> None:
    assert read(f"[{written}].") == [text]


def test_a_term_knows_its_place() -> None:
    term = read_erlang_term("[{rabbit,\n  [{heartbeat, 60}]}].")
    assert isinstance(term, ListTerm)
    (section,) = term.items
    assert isinstance(section, TupleTerm)
    keys = section.items[1]
    assert isinstance(keys, ListTerm)
    assert (section.at, keys.at, keys.items[0].at) == ((1, 2), (2, 3), (2, 4))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "1:1: expected '[' at the beginning, got the end of the file: write [{rabbit,"),
        ("{heartbeat, 60}", "1:1: expected '[' at the beginning, got '{': write [{rabbit, ["),
        ("[a]", "1:4: expected '.' after the term, got the end of the file: end the file with ]."),
        ("[a].\n[b].", "2:1: expected the end of the file after '.', got '[': put everything into"),
        ("[a,\n]. ", "2:1: expected a term after ',', got ']': remove the comma before it"),
        ("[{a, b},}].", "1:9: expected a term after ',', got '}': remove the comma before it"),
        ("[{a b}].", "1:5: expected ',' or '}', got 'b': a comma is missing before it"),
        ("[{a, b].", "1:7: expected ',' or '}', got ']': close what began with '{' first"),
        ("[{a, b}", "1:1: this '[' is never closed: add ']'"),
        ("[a, {b", "1:5: this '{' is never closed: add '}'"),
        ("[Guest].", "1:2: expected a term, got 'Guest': write 'Guest' in single quotes, or"),
        ("[#{a => b}].", "1:2: expected a term, got '#': maps are not used in configurations"),
        ("[a | b].", "1:4: expected ',' or ']', got '|': a comma is missing before it"),
        ("[,a].", "1:2: expected a term, got ',': such as an atom, a number"),
        ('["open].', '1:2: this string has no end in its line: add the closing "'),
        ("['open].", "1:2: this quoted atom has no end in its line: add the closing '"),
        ("[<<1, 2>>].", "1:4: expected '>>', got '1': a binary is written <<\"text\">>"),
        ('[<<"a"/binary>>].', '1:2: expected <<"text"/utf8>>: other types of binaries are not'),
        ("[key = value].", "1:6: expected an Erlang term, got '=': remove it, or quote the text"),
        ("[9#99].", "1:2: expected a number such as 16#FF, got '9#99': use digits of that base"),
        ('["\\x{110000}"].', "1:2: there is no character \\x{110000}: write the character itself"),
        ("[a\n b\n].", "2:2: expected ',' or ']', got 'b': a comma is missing before it"),
    ],
)
def test_a_complaint_says_where_what_was_expected_and_what_to_do(
    content: str, expected: str
) -> None:
    assert complaint(content).startswith(expected)


def test_a_string_is_not_repeated_in_a_complaint_since_it_may_be_secret() -> None:
    assert "hunter2" not in complaint('[{default_pass "hunter2"}].')


def test_nesting_has_a_bound() -> None:
    deep = DEPTH_MAX + 1
    assert read(f"{'[' * DEPTH_MAX}{']' * DEPTH_MAX}.")
    assert "nested deeper than" in complaint(f"{'[' * (deep + 1)}{']' * (deep + 1)}.")


terms = st.recursive(
    st.integers() | st.text("abcä\"\\\n\t %'", max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple),
    max_leaves=20,
)


def written(value: object) -> str:
    match value:
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            return f'"{escaped}"'
        case tuple():
            return "{" + ",".join(map(written, value)) + "}"
        case list():
            return "[" + ", ".join(map(written, value)) + "]"
        case _:
            return str(value)


@given(st.lists(terms, max_size=5))
def test_whatever_is_written_is_read_back(values: list[object]) -> None:
    assert read(f"{written(values)}.") == values


@given(st.text("[]{}<>\",.%'#/|ab1 \n\\", max_size=40))
def test_any_text_is_read_or_refused_with_a_place(content: str) -> None:
    try:
        read_erlang_term(content)
    except ErlangSyntaxError as error:
        line, column, _ = str(error).split(":", 2)
        assert 1 <= int(line) <= content.count("\n") + 1
        assert int(column) >= 1
