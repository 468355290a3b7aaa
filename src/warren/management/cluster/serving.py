"""What the APIs of other nodes ask this one, answered by the same `Dispatch` as clients are.

The scope of such a request holds an `Inquiry`, which no request over HTTP can: it says who asks, in
whose name, and for what part. The caller was let in by the node that asks; what it may do is
decided here as there, both have the same users.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

from warren.cluster.link.control import Inquire
from warren.server.served_inquiries import Answerer, AnswerStream

INQUIRY: Final = "warren.inquiry"


@dataclass(frozen=True, slots=True)
class Inquiry:
    peer: str
    user: str
    part: str


def answering(application: ASGIApp) -> Answerer:
    async def answer(peer: str, question: Inquire, stream: AnswerStream) -> None:
        body = [question.body]

        async def receive() -> Message:
            if not body:
                await asyncio.Event().wait()  # there is no more, and whoever asked stays
            return {"type": "http.request", "body": body.pop(), "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = {name.decode(): value.decode() for name, value in message["headers"]}
                stream.begin(message["status"], headers)
            else:
                is_last = not message.get("more_body", False)
                await stream.send(message.get("body", b""), is_last)

        await application(_scope(peer, question), receive, send)

    return answer


def _scope(peer: str, question: Inquire) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": question.method,
        "path": unquote(question.path),
        "raw_path": question.path.encode(),
        "query_string": question.query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in question.headers.items()],
        "client": None,
        INQUIRY: Inquiry(peer, question.user, question.part),
    }
