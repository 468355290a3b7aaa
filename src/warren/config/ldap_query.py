"""LDAP queries of a configuration: Erlang terms, as in RabbitMQ's advanced.config.

    {in_group, "cn=${vhost}-users,ou=groups,dc=example,dc=org"}

Each kind of query is a class here, so that one that is not understood is found when the node
starts, and not when somebody logs in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from warren.config.erlang_terms import (
    Atom,
    ErlangSyntaxError,
    ListTerm,
    Number,
    Term,
    Text,
    TupleTerm,
    read_any_term,
)

SCOPES: Final = {
    "subtree": "subtree", "singlelevel": "one", "single_level": "one", "onelevel": "one",
    "one_level": "one",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool


@dataclass(frozen=True, slots=True)
class StringPattern:
    pattern: str


@dataclass(frozen=True, slots=True)
class Attribute:
    dn_pattern: str
    attribute: str


@dataclass(frozen=True, slots=True)
class Exists:
    dn_pattern: str


@dataclass(frozen=True, slots=True)
class InGroup:
    dn_pattern: str
    attribute: str = "member"


@dataclass(frozen=True, slots=True)
class InNestedGroup:
    dn_pattern: str
    attribute: str = "member"
    scope: str = "subtree"


@dataclass(frozen=True, slots=True)
class Not:
    query: Query


@dataclass(frozen=True, slots=True)
class All:
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Any:
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Equals:
    left: Query
    right: Query


@dataclass(frozen=True, slots=True)
class Match:
    """`right` is a regular expression."""

    left: Query
    right: Query


@dataclass(frozen=True, slots=True)
class For:
    """The query of the first case whose variable has the value: `(variable, value, query)`."""

    cases: tuple[tuple[str, str, Query], ...]


Query: TypeAlias = (
    Constant | StringPattern | Attribute | Exists | InGroup | InNestedGroup | Not | All | Any
    | Equals | Match | For
)  # fmt: skip
TagQueries: TypeAlias = tuple[tuple[str, Query], ...]

TRUE: Final = "{constant, true}"
NO_TAGS: Final = "[{administrator, {constant, false}}]"


def query_text(value: str) -> str:
    """Return a text that `read_query` reads. Raises ValueError."""
    read_query(value)
    return value


def tag_queries_text(value: str) -> str:
    """Return a text that `read_tag_queries` reads. Raises ValueError."""
    read_tag_queries(value)
    return value


def read_query(value: str) -> Query:
    """Return the query that a text has. Raises ValueError."""
    return _query(_term(value))


def read_tag_queries(value: str) -> TagQueries:
    """Return the query of each tag, from `[{Tag, Query}, ...]`."""
    term = _term(value)
    if not isinstance(term, ListTerm):
        raise ValueError("expected a list [{tag, Query}, ...]")
    return tuple(_tag_query(item) for item in term.items)


def _tag_query(item: Term) -> tuple[str, Query]:
    match item:
        case TupleTerm(_, (Atom(_, tag), query)):
            return tag, _query(query)
    raise ValueError("expected {tag, Query} in the list")


def _term(value: str) -> Term:
    try:
        return read_any_term(value)
    except ErlangSyntaxError as error:
        raise ValueError(f"not an Erlang term: {error}") from None


def _query(term: Term) -> Query:
    match term:
        case Text(_, pattern):
            return StringPattern(pattern)
        case TupleTerm(_, (Atom(_, kind), *operands)):
            query = _known_query(kind, operands)
            if query is not None:
                return query
            raise ValueError(f"'{kind}' is no query that is known here, or has other operands")
    raise ValueError('expected a query such as {in_group, "cn=..."} or {constant, true}')


def _known_query(kind: str, operands: list[Term]) -> Query | None:
    match kind, operands:
        case "constant", [Atom(_, ("true" | "false") as value)]:
            return Constant(value == "true")
        case "string", [Text(_, pattern)]:
            return StringPattern(pattern)
        case "attribute", [Text(_, pattern), Text(_, attribute)]:
            return Attribute(pattern, attribute)
        case "exists", [Text(_, pattern)]:
            return Exists(pattern)
        case "in_group", [Text(_, pattern), *rest]:
            return _in_group(pattern, rest)
        case "in_group_nested", [Text(_, pattern), *rest]:
            return _in_nested_group(pattern, rest)
        case "for", [ListTerm(_, cases)]:
            return For(tuple(_case(each) for each in cases))
        case _:
            return _compound(kind, operands)


def _compound(kind: str, operands: list[Term]) -> Query | None:
    match kind, operands:
        case "not", [query]:
            return Not(_query(query))
        case "and", [ListTerm(_, queries)]:
            return All(tuple(_query(each) for each in queries))
        case "or", [ListTerm(_, queries)]:
            return Any(tuple(_query(each) for each in queries))
        case "equals", [left, right]:
            return Equals(_query(left), _query(right))
        case "match", [left, right]:
            return Match(_query(left), _query(right))
    return None


def _in_group(pattern: str, rest: list[Term]) -> Query | None:
    match rest:
        case []:
            return InGroup(pattern)
        case [Text(_, attribute)]:
            return InGroup(pattern, attribute)
    return None


def _in_nested_group(pattern: str, rest: list[Term]) -> Query | None:
    match rest:
        case []:
            return InNestedGroup(pattern)
        case [Text(_, attribute)]:
            return InNestedGroup(pattern, attribute)
        case [Text(_, attribute), Atom(_, scope)] if scope in SCOPES:
            return InNestedGroup(pattern, attribute, SCOPES[scope])
    return None


def _case(term: Term) -> tuple[str, str, Query]:
    match term:
        case TupleTerm(_, (Atom(_, variable), (Atom() | Text() | Number()) as value, query)):
            return variable, _word(value), _query(query)
    raise ValueError("expected {variable, value, Query} in the list of 'for'")


def _word(term: Atom | Text | Number) -> str:
    match term:
        case Atom(_, name):
            return name
        case Text(_, text):
            return text
        case Number(_, _, written):
            return written
