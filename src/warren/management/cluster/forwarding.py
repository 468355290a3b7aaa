"""Requests about one thing that another node has: that node answers, we pass it on as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response, StreamingResponse

from warren.management.caller import proof_of
from warren.management.cluster.peers import PeerAnswer, PeerSilent, Question
from warren.management.errors import Refusal

if TYPE_CHECKING:
    from warren.management.call import Call

FORWARDED_BODY_BYTES_MAX: Final = 65_536
_ABSENT: Final = 404
# What a client may say beside the request itself, and is told beside the answer.
_ASKED_HEADERS: Final = ("x-reason", "x-vhost")
_TOLD_HEADERS: Final = (
    "allow", "cache-control", "content-type", "location", "retry-after", "x-warren-node",
)  # fmt: skip


def question_of(call: Call, part: str = "", body: bytes = b"") -> Question:
    """The request itself, to be asked of others."""
    request = call.request
    headers = {name: request.headers[name] for name in _ASKED_HEADERS if name in request.headers}
    raw_path = request.scope.get("raw_path") or request.url.path.encode()
    query = request.scope.get("query_string", b"")
    return Question(
        call.user.name,
        request.method,
        raw_path.decode("latin-1"),
        query.decode("latin-1"),
        headers | proof_of(call.user),
        body,
        part,
    )


async def answer_of_master(call: Call, master: str) -> Response:
    """Raises 503 if it does not answer: whether it has done what it was asked nobody knows."""
    try:
        answer = await call.peers.ask(master, await _whole_question(call))
    except PeerSilent as silent:
        raise Refusal(503, "unavailable", str(silent)) from None
    return _passed_on(answer)


async def answer_of_anybody(call: Call) -> Response | None:
    """Of the node that has what it is about; None if no other has it."""
    answers = await call.peers.ask_all(await _whole_question(call))
    found = next((answer for answer in answers if answer.status != _ABSENT), None)
    return None if found is None else _passed_on(found)


async def _whole_question(call: Call) -> Question:
    return question_of(call, body=await call.raw_body(FORWARDED_BODY_BYTES_MAX))


def _passed_on(answer: PeerAnswer) -> Response:
    told: dict[str, str] = {
        name: answer.headers[name] for name in _TOLD_HEADERS if name in answer.headers
    }
    return StreamingResponse(aiter(answer), answer.status, told)
