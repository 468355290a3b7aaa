"""Limits of users and virtual hosts, which are JSON objects of a few known numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warren.cli.ctl.call import Call
from warren.cli.ctl.terms import quoted
from warren.cli.ctl.verbs import error


def limits_given(call: Call, number: int, known: Sequence[str], where: str) -> dict[str, int]:
    """The limits in an argument, refused as RabbitMQ does where they are none.

    The API sets one at a time. None must have been set when another turns out to be wrong.
    """
    given = call.json_argument(number)
    if not isinstance(given, dict):
        raise error(f"{where} must be a JSON object")
    unknown = {name: value for name, value in given.items() if name not in known}
    if unknown:
        terms = ",".join(f"{{<<{quoted(n)}>>,{_term(v)}}}" for n, v in unknown.items())
        raise _refused(where, f"Unrecognised terms [{terms}] in {where}")
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise _refused(where, f"{name} should be a number, actually was {_term(value)}")
    return given


def limit_names(entries: list[dict[str, Any]]) -> list[str]:
    """What the API lists for one user or virtual host."""
    return [name for entry in entries for name in entry["value"]]


def _refused(where: str, problem: str) -> Exception:
    return error(problem if where == "user-limits" else f"Validation failed\n\n{problem}\n")


def _term(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f"<<{quoted(value)}>>"
        case _:
            return str(value)
