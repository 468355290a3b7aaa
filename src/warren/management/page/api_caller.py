"""The page asks the API, in the name of who is signed in, as any other client would.

So there is one place that decides who may see and do what, one that knows which node to ask, and
one line in the log for each change, whatever it was made with. Only the sockets are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from warren.auth.users import User
from warren.management.caller import VISITOR
from warren.management.json_types import Json, encode

# A page shows a page of a list; only a list that has no pages could be longer.
ANSWER_BYTES_MAX: Final = 64_000_000
_REFUSED: Final = 400
_NOTHING: Final[Mapping[str, str]] = {}


class Refused(Exception):
    """What the API would not do, and why, in words for a person."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def api_path(*parts: str) -> str:
    return "/api/" + "/".join(quote(part, safe="") for part in parts)


class ApiCaller:
    def __init__(self, dispatch: ASGIApp, request: Request, user: User) -> None:
        self._dispatch = dispatch
        self._request = request
        self._user = user

    async def get(self, *parts: str, query: Mapping[str, str] = _NOTHING) -> Json:
        return await self._ask("GET", parts, query)

    async def put(self, *parts: str, body: Json = None) -> Json:
        return await self._ask("PUT", parts, body=body)

    async def post(self, *parts: str, body: Json = None) -> Json:
        return await self._ask("POST", parts, body=body)

    async def delete(
        self, *parts: str, query: Mapping[str, str] = _NOTHING, reason: str = ""
    ) -> Json:
        headers = {"x-reason": _header_text(reason)} if reason else _NOTHING
        return await self._ask("DELETE", parts, query, headers=headers)

    def passed_on(self, *parts: str, query: Mapping[str, str] = _NOTHING) -> Response:
        """The answer itself, for something to save: it may be longer than memory should hold."""
        return _PassedOn(self._dispatch, self._scope("GET", parts, query, _NOTHING))

    async def send_file(self, *parts: str, content: bytes) -> None:
        await self._run(self._scope("POST", parts, _NOTHING, _NOTHING), content)

    async def _ask(
        self,
        method: str,
        parts: tuple[str, ...],
        query: Mapping[str, str] = _NOTHING,
        body: Json = None,
        headers: Mapping[str, str] = _NOTHING,
    ) -> Json:
        content = b"" if body is None else encode(body)
        return await self._run(self._scope(method, parts, query, headers), content)

    async def _run(self, scope: Scope, content: bytes) -> Json:
        answer = _Answer(content)
        await self._dispatch(scope, answer.receive, answer.send)
        body = b"".join(answer.pieces)
        if answer.status >= _REFUSED:
            raise Refused(answer.status, _reason(body, answer.status))
        return msgspec.json.decode(body) if body else None

    def _scope(
        self,
        method: str,
        parts: tuple[str, ...],
        query: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> Scope:
        path = api_path(*parts)
        agent = self._request.headers.get("user-agent", "unknown")
        sent = {"user-agent": agent, "content-type": "application/json", **headers}
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": urlencode(query).encode(),
            "root_path": "",
            "scheme": self._request.url.scheme,
            "server": self._request.scope.get("server"),
            "client": self._request.scope.get("client"),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
            VISITOR: self._user,
        }


class _Answer:
    def __init__(self, content: bytes) -> None:
        self.status = 0
        self.pieces: list[bytes] = []
        self._content: bytes | None = content
        self._room = ANSWER_BYTES_MAX

    async def receive(self) -> Message:
        if self._content is None:
            await asyncio.Event().wait()  # there is no more, and whoever asked stays
        content, self._content = self._content, None
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        piece = message.get("body", b"")
        self._room -= len(piece)
        if self._room < 0:
            raise Refused(507, "The answer is too long for a page.")
        self.pieces.append(piece)


class _PassedOn(Response):
    def __init__(self, dispatch: ASGIApp, scope: Scope) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._asked: dict[str, Any] = dict(scope)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._dispatch(self._asked, receive, send)


def _header_text(text: str) -> str:
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in text)


def _reason(body: bytes, status: int) -> str:
    try:
        reason = msgspec.json.decode(body).get("reason")
    except (msgspec.DecodeError, AttributeError):
        reason = None
    if isinstance(reason, list):
        return ": ".join(str(part) for part in reason)
    return str(reason) if reason else f"The broker refused this with status {status}."
