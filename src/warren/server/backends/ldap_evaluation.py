"""LDAP evaluation of queries: may this user do that, according to the directory?

A query is evaluated over one connection, in a thread. What the directory does not have (an entry,
an attribute) is false; what it could not be asked is an error, which refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

from warren.auth.backends import BackendError
from warren.auth.questions import Question
from warren.config.ldap_query import (
    All,
    Any,
    Attribute,
    Constant,
    Equals,
    Exists,
    For,
    InGroup,
    InNestedGroup,
    Match,
    Not,
    Query,
    StringPattern,
)
from warren.model.regular_expressions import InvalidPattern, compile_pattern

NESTED_SEARCHES_MAX: Final = 200
"""Most searches of one in_group_nested: groups may contain each other."""
_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_IS_DN: Final = "="
# Already a DN, so nothing in it is to be escaped.
_USER_DN: Final = "user_dn"

Value: TypeAlias = bool | tuple[str, ...]
Variables: TypeAlias = Mapping[str, str]


class DirectoryReader(Protocol):
    """An LDAP connection, bound as somebody who may read."""

    def exists(self, dn: str, attribute: str, value: str | None) -> bool:
        """True if the entry is there and has the attribute (with this value, if there is one)."""
        ...

    def attribute(self, dn: str, name: str) -> tuple[str, ...]: ...

    def groups_of(self, base: str, scope: str, attribute: str, dn: str) -> list[str]:
        """Return the DNs of entries below `base` whose attribute has this DN."""
        ...

    def escape(self, text: str) -> str:
        """Return a text as it stands in a DN."""
        ...


def names_of(username: str) -> dict[str, str]:
    """Return the variables that a user's name gives; Active Directory has a domain in it."""
    domain, backslash, user = username.partition("\\")
    if backslash and domain and user:
        return {"username": username, "ad_domain": domain, "ad_user": user}
    return {"username": username}


def variables_of(username: str, dn: str, question: Question | None) -> dict[str, str]:
    variables = {**names_of(username), _USER_DN: dn}
    if question is None:
        return variables
    variables["vhost"] = question.vhost
    if question.subject == "vhost":
        return variables
    variables |= {
        "resource": question.subject,
        "name": question.name,
        "permission": question.permission,
    }
    if question.subject == "topic":
        variables["routing_key"] = question.routing_key
        variables["variable_map.username"] = username
        variables["variable_map.vhost"] = question.vhost
    return variables


def filled(pattern: str, variables: Variables, escape: Callable[[str], str] | None = None) -> str:
    """Return the pattern with `${name}` replaced; in a DN, values are escaped.

    Without that a user could name itself into another entry.
    """
    is_escaped = escape is not None and _IS_DN in pattern

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in variables:
            return match[0]
        text = variables[name]
        return escape(text) if is_escaped and escape and name != _USER_DN else text

    return _VARIABLE.sub(value, pattern)


class Evaluation:
    def __init__(self, reader: DirectoryReader, variables: Variables, groups_base: str) -> None:
        self._reader = reader
        self._variables = variables
        self._groups_base = groups_base
        self._searches = 0

    def is_true(self, query: Query) -> bool:
        """Raises BackendError if the query cannot be answered."""
        value = self._value(query)
        if not isinstance(value, bool):
            raise BackendError("the query has a text as its result, expected true or false")
        return value

    def _value(self, query: Query) -> Value:
        match query:
            case Constant(value):
                return value
            case StringPattern(pattern):
                return (filled(pattern, self._variables),)
            case Attribute(pattern, name):
                return self._reader.attribute(self._dn(pattern), name)
            case Not(negated):
                return not self.is_true(negated)
            case All(queries):
                return all(self.is_true(each) for each in queries)
            case Any(queries):
                return any(self.is_true(each) for each in queries)
            case Equals(left, right):
                return not set(self._texts(left)).isdisjoint(self._texts(right))
            case Match(left, right):
                return self._matches(self._texts(left), self._texts(right))
            case For(cases):
                return self._chosen(cases)
            case Exists() | InGroup() | InNestedGroup():
                return self._is_there(query)

    def _is_there(self, query: Exists | InGroup | InNestedGroup) -> bool:
        dn, user_dn = self._dn(query.dn_pattern), self._variables[_USER_DN]
        match query:
            case Exists():
                return self._reader.exists(dn, "objectClass", None)
            case InGroup(_, attribute):
                return self._reader.exists(dn, attribute, user_dn)
            case InNestedGroup(_, attribute, scope):
                return self._is_nested(dn, attribute, scope, user_dn)

    def _dn(self, pattern: str) -> str:
        return filled(pattern, self._variables, self._reader.escape)

    def _texts(self, query: Query) -> tuple[str, ...]:
        value = self._value(query)
        if isinstance(value, bool):
            raise BackendError("the query compares true or false, expected a text")
        return value

    def _matches(self, texts: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
        try:
            compiled = [compile_pattern(pattern) for pattern in patterns]
        except InvalidPattern as error:
            raise BackendError(f"not a regular expression: {error}") from None
        return any(pattern.matches_name(text) for pattern in compiled for text in texts)

    def _chosen(self, cases: tuple[tuple[str, str, Query], ...]) -> Value:
        for variable, value, query in cases:
            if variable not in self._variables:
                raise BackendError(f"there is no variable {variable} in this query")
            if self._variables[variable] == value:
                return self._value(query)
        raise BackendError("no case of 'for' fits")

    def _is_nested(self, group: str, attribute: str, scope: str, user_dn: str) -> bool:
        seen, waiting = {user_dn.lower()}, [user_dn]
        while waiting:
            self._searches += 1
            if self._searches > NESTED_SEARCHES_MAX:
                raise BackendError(f"more than {NESTED_SEARCHES_MAX} groups had to be searched")
            found = self._reader.groups_of(self._groups_base, scope, attribute, waiting.pop())
            for dn in found:
                if dn.lower() == group.lower():
                    return True
                if dn.lower() not in seen:
                    seen.add(dn.lower())
                    waiting.append(dn)
        return False
