"""One request to the API: who asks, about what, with which words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect, Request

from warren.auth.users import User
from warren.broker.broker import Broker
from warren.broker.vhost import VirtualHost
from warren.management.bodies import BODY_BYTES_MAX, Body, parse_body
from warren.management.caller import Caller
from warren.management.cluster.peers import Peers
from warren.management.cluster.serving import INQUIRY, Inquiry
from warren.management.errors import bad_request, not_found

if TYPE_CHECKING:
    from warren.server.node import Node

_DEFAULT_EXCHANGE = "amq.default"


class Call:
    """`parts` are the named parts of the path, decoded; `query` what stands behind the `?`."""

    def __init__(
        self, node: Node, request: Request, parts: Mapping[str, str], peers: Peers
    ) -> None:
        self.node = node
        self.peers = peers
        # Set if another node asks, of what this one has.
        self.inquiry: Inquiry | None = request.scope.get(INQUIRY)
        self.broker: Broker = node.broker
        self.request = request
        self.parts = parts
        self.query: Mapping[str, str] = request.query_params
        self._caller: Caller | None = None
        self._raw_body: bytes | None = None

    @property
    def caller(self) -> Caller:
        assert self._caller is not None, "whoever dispatches a call authenticates it first"
        return self._caller

    @caller.setter
    def caller(self, caller: Caller) -> None:
        self._caller = caller

    @property
    def user(self) -> User:
        return self.caller.user

    @property
    def part(self) -> str:
        """What another node wants of the answer, if not the whole of it."""
        return "" if self.inquiry is None else self.inquiry.part

    # What it is about.

    @property
    def vhost_name(self) -> str | None:
        """The virtual host in the path, or else in the header `x-vhost`; None: all of them."""
        return self.parts.get("vhost") or self.request.headers.get("x-vhost") or None

    @property
    def vhost(self) -> VirtualHost:
        """Raises 404 `vhost_not_found`; a resource that looks first answers earlier."""
        vhost = self.find_vhost()
        if vhost is None:
            raise not_found("vhost_not_found")
        return vhost

    def find_vhost(self) -> VirtualHost | None:
        return self.broker.vhosts.get(self.vhost_name or "")

    def exchange_name(self, part: str = "exchange") -> str:
        """The default exchange has no name that fits into a path."""
        name = self.parts[part]
        return "" if name == _DEFAULT_EXCHANGE else name

    def flag(self, name: str) -> bool:
        """A query parameter that says `true`."""
        return self.query.get(name) == "true"

    # What it says.

    async def body(self, bytes_max: int = BODY_BYTES_MAX) -> Body:
        return await parse_body(await self.raw_body(bytes_max))

    async def raw_body(self, bytes_max: int = BODY_BYTES_MAX) -> bytes:
        """It comes once, and may be asked for again."""
        if self._raw_body is None:
            self._raw_body = await self._read_body(bytes_max)
        return self._raw_body

    async def _read_body(self, bytes_max: int) -> bytes:
        pieces = []
        length = 0
        try:
            async for piece in self.request.stream():
                length += len(piece)
                if length > bytes_max:
                    raise bad_request("Exceeded HTTP request body size limit")
                pieces.append(piece)
        except ClientDisconnect:
            raise bad_request("not_json") from None
        return b"".join(pieces)
