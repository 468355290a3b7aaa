"""/api/warren/page-sessions/ID: a DELETE ends a session of the page, at all nodes.

The page asks for it when its user signs out. A user can end sessions of its own only: the id of
another's means nothing here.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from warren.management.call import Call
from warren.management.caller import ANY_TAG, proof_of
from warren.management.cluster.peers import Question
from warren.management.errors import bad_request
from warren.management.page.signing import SESSION_S_MAX
from warren.management.resource import Resource

_ID_CHARS: Final = 64


async def _end(call: Call) -> None:
    session = call.parts["session"]
    if len(session) != _ID_CHARS:
        raise bad_request("not the id of a session")
    ended = call.node.ended_sessions
    ended.add(call.user.name, session, time.time() + SESSION_S_MAX)
    await asyncio.to_thread(ended.save)
    if call.inquiry is None:
        path, proof = call.request.url.path, proof_of(call.user)
        await call.peers.ask_all(Question(call.user.name, "DELETE", path, headers=proof))


RESOURCES: Final = (
    Resource(path="/warren/page-sessions/{session}", rule=ANY_TAG, is_change=False, delete=_end),
)
