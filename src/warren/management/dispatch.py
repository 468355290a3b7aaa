"""From a request to a resource, through the checks that every request passes, to a response.

The order of checks is that of RabbitMQ's web server: is there such an address, does it know the
method, who are you, may you, is the thing there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from warren.auth.questions import once_answered
from warren.broker.events import ACTING_USER
from warren.management.audit import CHANGING_METHODS, audit
from warren.management.call import Call
from warren.management.caller import authenticate
from warren.management.cluster.forwarding import answer_of_anybody, answer_of_master
from warren.management.cluster.peers import REQUESTS_TO_ALL_MAX, Peers
from warren.management.cluster.serving import INQUIRY
from warren.management.columns import parse_columns, with_columns
from warren.management.errors import (
    REFUSED,
    BetweenMasters,
    EmptyRefusal,
    Refusal,
    no_such_object,
    refusal_of,
)
from warren.management.json_types import Json
from warren.management.listing import json_response
from warren.management.origins import is_foreign
from warren.management.paths import PathTree, path_parts
from warren.management.resource import Handler, Resource

if TYPE_CHECKING:
    from warren.server.node import Node

_PREFIX: Final = "/api/"
NEW_MASTER_S_MAX: Final = 2.0
"""A request waits so long for a queue between two masters, then it is answered with 503."""
NEW_MASTER_LOOK_S: Final = 0.01
_UNAVAILABLE: Final = 503
_CREATED: Final = 201
_DONE: Final = 204


class Dispatch:
    """An ASGI application for everything below /api/."""

    def __init__(self, node: Node, resources: Iterable[Resource]) -> None:
        self._node = node
        self._tree = PathTree[Resource]()
        self._room = asyncio.Semaphore(REQUESTS_TO_ALL_MAX)
        for resource in resources:
            self._tree.add(resource.path, resource)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        peers = Peers(self._node, None if INQUIRY in scope else self._room)
        try:
            response = await self._response(request, peers)
            response.headers["x-content-type-options"] = "nosniff"
            await response(scope, receive, send)
        finally:
            peers.leave()

    async def _response(self, request: Request, peers: Peers) -> Response:
        try:
            return await self._respond(request, peers)
        except Refusal as refusal:
            return refusal.response()
        except REFUSED as error:
            return refusal_of(error).response()
        except asyncio.CancelledError:
            # It took longer than a node that stops can wait.
            return Refusal(503, "service_unavailable", "the node is stopping").response()

    async def _respond(self, request: Request, peers: Peers) -> Response:
        resource, parts = self._find(request)
        method = request.method
        allowed = {"allow": ", ".join(resource.allowed_methods)}
        if method == "OPTIONS":
            return Response(b"", 200, allowed)
        handler = resource.handler(method)
        if handler is None:
            raise EmptyRefusal(405, allowed)
        if method in CHANGING_METHODS and is_foreign(request):
            raise Refusal(403, "forbidden", "the request came from a page of another site")
        call = Call(self._node, request, parts, peers)
        if resource.rule.is_login_needed:
            call.caller = await authenticate(request, self._node, call.inquiry)
            ACTING_USER.set(call.caller.user.name)  # of this request alone
        response = await once_answered(lambda: self._permitted_answer(call, resource, handler))
        if resource.is_change and method in CHANGING_METHODS and call.inquiry is None:
            audit(call, response.status_code)
        return response

    async def _permitted_answer(self, call: Call, resource: Resource, handler: Handler) -> Response:
        """Answer if the caller may ask; raises AnswerPending before anything is changed."""
        resource.rule.require(call)
        return await self._answer(call, resource, handler)

    async def _answer(self, call: Call, resource: Resource, handler: Handler) -> Response:
        """Answer; a question about a queue that moves waits for the new master.

        A hand-over takes some 50 ms, in which no node can answer.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + NEW_MASTER_S_MAX
        is_question = call.request.method in ("GET", "HEAD") and call.inquiry is None
        while is_question and loop.time() < deadline_s:
            try:
                response = await self._answer_once(call, resource, handler)
                if not _is_moving(response):
                    return response
            except BetweenMasters:
                pass
            await asyncio.sleep(NEW_MASTER_LOOK_S)
        return await self._answer_once(call, resource, handler)

    async def _answer_once(self, call: Call, resource: Resource, handler: Handler) -> Response:
        method = call.request.method
        is_there = resource.exists(call)
        if (elsewhere := await _elsewhere(call, resource, is_there)) is not None:
            return elsewhere
        is_made_here = method == "PUT" and resource.get is not None
        if not is_there and not is_made_here:
            raise no_such_object()
        done = _CREATED if method == "PUT" and not is_there else _DONE
        return _response(await handler(call), call, done)

    def _find(self, request: Request) -> tuple[Resource, dict[str, str]]:
        try:
            parts = path_parts(request, _PREFIX)
        except UnicodeDecodeError:
            raise EmptyRefusal(400) from None
        found = self._tree.find(parts)
        if found is None:
            raise no_such_object()
        return found


def _is_moving(response: Response) -> bool:
    """True for the answer of another node that a queue is between two masters."""
    return response.status_code == _UNAVAILABLE and "retry-after" in response.headers


async def _elsewhere(call: Call, resource: Resource, is_there: bool) -> Response | None:
    """The answer of another node, if it is another's to give; None if it is ours."""
    if call.inquiry is not None or not call.peers.names:
        return None
    if resource.is_sought and not is_there:
        return await answer_of_anybody(call)
    master = resource.node_of(call)
    return await answer_of_master(call, master) if master in call.peers.names else None


def _response(result: Json | Response | None, call: Call, done: int) -> Response:
    if isinstance(result, Response):
        return result
    if result is None:
        return Response(b"", done)
    # What another node wants a part of it puts columns of in the end.
    columns = None if call.part else parse_columns(call.query.get("columns"))
    return json_response(with_columns(result, columns))
