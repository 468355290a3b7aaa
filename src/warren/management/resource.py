"""A resource: an address, who may use it, and what GET, PUT, POST and DELETE do there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from starlette.responses import Response

from warren.management.call import Call
from warren.management.caller import Rule
from warren.management.json_types import Json

# What it returns is shown as JSON; None says that the work is done, a Response is sent as it is.
Handler: TypeAlias = Callable[[Call], Awaitable[Json | Response | None]]


def _always(_call: Call) -> bool:
    return True


def _here(call: Call) -> str:
    return call.node.config.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """`path` begins behind /api; `{name}` takes one part of it, decoded, to `call.parts`.

    `exists` is asked before anything else. If not, the answer is 404; only a PUT to where a GET can
    look goes on, since it makes the thing, and then says 201 where it says 204 otherwise.

    In a cluster: `node_of` names the node whose thing it is, if it is known, which then answers.
    With `is_sought`, what is not here is looked for at all other nodes.
    """

    path: str
    rule: Rule
    is_change: bool = True
    """Whether PUT, POST and DELETE change what is declared or configured, for the audit."""
    exists: Callable[[Call], bool] = _always
    get: Handler | None = None
    put: Handler | None = None
    post: Handler | None = None
    delete: Handler | None = None
    node_of: Callable[[Call], str] = _here
    is_sought: bool = False

    def handler(self, method: str) -> Handler | None:
        return self._handlers().get(method)

    @property
    def allowed_methods(self) -> list[str]:
        return [*(name for name, handler in self._handlers().items() if handler), "OPTIONS"]

    def _handlers(self) -> dict[str, Handler | None]:
        return {
            "HEAD": self.get,
            "GET": self.get,
            "PUT": self.put,
            "POST": self.post,
            "DELETE": self.delete,
        }
