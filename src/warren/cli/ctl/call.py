"""A verb with its arguments, and what it needs while it runs."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from warren.cli.ctl.verbs import QUIET_FORMATTERS, Contact, Exit, Verb, WrongUsage, error

if TYPE_CHECKING:
    from warren.cli.ctl.api import Api, Target, Trust

DEFAULT_VHOST: Final = "/"
DEFAULT_TIMEOUT_S: Final = 60.0
EXCERPT_CHARS: Final = 40
OptionValue = str | int | bool


@dataclass
class Call:
    verb: Verb
    arguments: list[str]
    options: dict[str, OptionValue] = field(default_factory=dict)
    _opened: list[Api] = field(default_factory=list)

    @property
    def vhost(self) -> str:
        return self.text("vhost") or DEFAULT_VHOST

    @property
    def formatter(self) -> str:
        return self.text("formatter") or "table"

    @property
    def is_quiet(self) -> bool:
        return self.flag("quiet") or self.is_silent

    @property
    def is_silent(self) -> bool:
        return self.flag("silent")

    @property
    def timeout_s(self) -> float | None:
        """None is for ever, which `--timeout 0` asks for."""
        given = self.integer("timeout")
        if given is None:
            return None if self.verb.is_endless else self.verb.timeout_s or DEFAULT_TIMEOUT_S
        return float(given) if given > 0 else None

    def flag(self, name: str) -> bool:
        return self.options.get(name) is True

    def text(self, name: str) -> str | None:
        value = self.options.get(name)
        return value if isinstance(value, str) else None

    def integer(self, name: str) -> int | None:
        value = self.options.get(name)
        return value if isinstance(value, int) else None

    def argument(self, number: int) -> str | None:
        return self.arguments[number] if number < len(self.arguments) else None

    def announce(self, text: str) -> None:
        """The banner, for people: not if they want quiet, nor for programs."""
        if not self.is_quiet and self.formatter not in QUIET_FORMATTERS:
            print(text, flush=True)

    def warn(self, text: str) -> None:
        if not self.is_quiet:
            print(text, file=sys.stderr)

    @cached_property
    def target(self) -> Target:
        from os import environ

        from warren.cli.ctl.api import DEFAULT_URL, Target

        return Target.of(
            self.text("url") or environ.get("WARREN_URL") or DEFAULT_URL,
            self.text("username") or environ.get("WARREN_USER"),
            self.text("password") or environ.get("WARREN_PASSWORD"),
            self._trust,
        )

    @property
    def _trust(self) -> Trust:
        from os import environ

        from warren.cli.ctl.api import Trust

        cacertfile = self.text("cacertfile") or environ.get("WARREN_CACERTFILE") or ""
        return Trust(cacertfile, self.text("certfile") or "", self.text("keyfile") or "")

    @cached_property
    def api(self) -> Api:
        """Connection to the node, made when the verb first asks something: see `require_node`."""
        api = self.another_api(self.timeout_s)
        if self.verb.contact is Contact.NODE:
            from warren.cli.ctl.api import require_node

            require_node(api, self.text("node"))
        return api

    def make_contact(self) -> None:
        """Raise a Failure unless the node answers, before it is asked in another's name."""
        _ = self.api

    def another_api(self, timeout_s: float | None, target: Target | None = None) -> Api:
        """With a deadline, or credentials, of its own; closed when the call ends."""
        from warren.cli.ctl.api import Api

        api = Api(target or self.target, timeout_s)
        self._opened.append(api)
        return api

    def close(self) -> None:
        for api in self._opened:
            api.close()
        self._opened.clear()

    @cached_property
    def overview(self) -> dict[str, object]:
        """Return what the node says of itself; of the whole cluster, if none is named."""
        answer: dict[str, object] = self.api.get("overview", **self.about_node)
        return answer

    @property
    def about_node(self) -> dict[str, str]:
        """Query for what each node answers for itself: it is passed on to the one named."""
        named = self.text("node")
        return {} if named is None else {"node": named}

    @cached_property
    def node(self) -> str:
        """Name of the node that the verb is about: the one that -n names, or that answers."""
        return self.text("node") or str(self.overview["node"])

    @cached_property
    def is_asked_itself(self) -> bool:
        """True if the node that the verb is about is the one at the address."""
        named = self.text("node")
        return named is None or named == str(self.api.get("overview", columns="node")["node"])

    def json_argument(self, number: int) -> object:
        """An argument that is a JSON document."""
        import json

        try:
            return json.loads(self.arguments[number])
        except ValueError as fault:
            raise error(
                "JSON decoding error. Reason: badarg",
                Exit.DATA,
                Exit.UNAVAILABLE,
                where_in_json(fault),
            ) from fault

    def integer_argument(self, number: int) -> int:
        text = self.arguments[number]
        if not text.isdecimal() or int(text) == 0:
            raise WrongUsage("Bad argument: Argument must be a positive integer", Exit.DATA)
        return int(text)


def where_in_json(fault: ValueError) -> str:
    """The position of a mistake in a JSON text, with a mark below it."""
    from json import JSONDecodeError

    if not isinstance(fault, JSONDecodeError):
        return str(fault)
    line = fault.doc.splitlines()[fault.lineno - 1] if fault.doc.strip() else ""
    start = max(0, fault.colno - 1 - EXCERPT_CHARS)
    shown = line[start : fault.colno - 1 + EXCERPT_CHARS]
    mark = " " * (fault.colno - 1 - start) + "^"
    return f"{fault.msg}: line {fault.lineno}, column {fault.colno}\n    {shown}\n    {mark}"
