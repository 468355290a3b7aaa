"""The other nodes of the cluster, as this node's API sees them: whom to ask, and their answers.

Every node knows the whole topology, but only a queue's master knows its figures, and a connection
is known only where it is. So the node that a request comes to asks the others, over the links that
are there anyway (`cluster/link/inquiries.py`), in the name of the caller that it has let in. What
it asks is the request itself, which the others' `Dispatch` answers as it would a client's, from
what is theirs alone. There are four ways of making one answer of it:

    one thing, at a known master     that master's answer, as it is              `forwarding`
    one thing, wherever it is      the answer of the node that has it        `forwarding`
    a list of what is spread       rows of all nodes, merged in order        `spread_listing`
    figures of what all have       added up                                  `sums`

Nobody is waited for endlessly: a node that says nothing for ANSWER_S_MAX, or whose link breaks, is
left out. A dead one is not asked at all, from the moment its session ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from warren.cluster.link.control import Inquire
from warren.cluster.link.inquiries import QUESTION_BYTES_MAX, Inquiries
from warren.management.errors import Refusal
from warren.model.logs import EventLog

if TYPE_CHECKING:
    from warren.server.node import Node

# Longer than the session of a dead node lasts: who is silent for so long lives, but does not work.
ANSWER_S_MAX: Final = 10.0
# With the parts that each answer may have ahead it bounds the memory that they take.
REQUESTS_TO_ALL_MAX: Final = 64

_log = EventLog("management")


class PeerSilent(Exception):
    """The node cannot be asked, or does not answer."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request; `part` says what is wanted where that is not the answer to it as a whole."""

    user: str
    method: str
    path: str
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    part: str = ""

    def numbered(self, number: int) -> Inquire:
        return Inquire(
            number,
            self.user,
            self.method,
            self.path,
            self.query,
            self.headers,
            self.body,
            self.part,
        )


class PeerAnswer:
    """One node's answer: its status first, then its body in parts, as they come."""

    def __init__(self, peer: str, inquiries: Inquiries, question: Question) -> None:
        self.peer = peer
        self.status = 0
        self.headers: dict[str, str] = {}
        self._inquiries = inquiries
        self._parts: deque[bytes] = deque()
        self._is_ended = False
        self._is_failed = False
        self._news = asyncio.Event()
        self._number = inquiries.ask(question.numbered, self)

    # What the link tells.

    def begun(self, status: int, headers: dict[str, str]) -> None:
        self.status, self.headers = status, headers
        self._news.set()

    def heard(self, data: bytes, is_last: bool) -> None:
        self._parts.append(data)
        self._is_ended = is_last
        self._news.set()

    def failed(self) -> None:
        self._is_failed = True
        self._news.set()

    # For who asked.

    async def begin(self) -> None:
        """Until the status is there. Raises PeerSilent."""
        await self._until(lambda: self.status != 0)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The parts of the body. Raises PeerSilent."""
        while not self._is_ended or self._parts:
            await self._until(lambda: bool(self._parts))
            yield self._parts.popleft()
            self._inquiries.want_more(self._number)

    async def whole(self) -> bytes:
        return b"".join([part async for part in self])

    def close(self) -> None:
        self._inquiries.dismiss(self._number)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                while not is_so():
                    if self._is_failed:
                        raise PeerSilent(f"the link to node '{self.peer}' broke")
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            self.close()
            raise PeerSilent(f"no answer of node '{self.peer}' in {ANSWER_S_MAX:g} s") from None


class Peers:
    """What one request needs of the others. To be left when it is answered."""

    def __init__(self, node: Node, room: asyncio.Semaphore | None) -> None:
        """No `room` for the request of a peer, which may itself be waiting in such a room."""
        self._node = node
        self._room = room
        self._is_in = False
        self._answers: list[PeerAnswer] = []

    @property
    def names(self) -> list[str]:
        """The others that live, whether or not they can be asked at the moment."""
        cluster = self._node.cluster
        return [] if cluster is None else sorted(cluster.links.nodes)

    async def ask(self, peer: str, question: Question) -> PeerAnswer:
        """An answer that has begun. Raises PeerSilent."""
        await self._enter()
        return await self._ask(peer, question)

    async def _ask(self, peer: str, question: Question) -> PeerAnswer:
        cluster = self._node.cluster
        asked = None if cluster is None else cluster.links.nodes.get(peer)
        if asked is None or asked.asker.output is None:
            raise PeerSilent(f"there is no link to node '{peer}'")
        if len(question.body) + len(question.path) + len(question.query) > QUESTION_BYTES_MAX:
            raise PeerSilent(f"the request is too large to be passed on to node '{peer}'")
        answer = PeerAnswer(peer, asked.asker.inquiries, question)
        self._answers.append(answer)
        await answer.begin()
        return answer

    async def ask_all(self, question: Question) -> list[PeerAnswer]:
        """All others at the same time; those who do not answer are left out."""
        return await self.ask_each(dict.fromkeys(self.names, question))

    async def ask_each(self, questions: Mapping[str, Question]) -> list[PeerAnswer]:
        await self._enter()
        answers = await asyncio.gather(
            *(self._ask(peer, question) for peer, question in questions.items()),
            return_exceptions=True,
        )
        begun = []
        for peer, answer in zip(questions, answers, strict=True):
            if isinstance(answer, PeerAnswer):
                begun.append(answer)
            elif isinstance(answer, PeerSilent):
                _log.warning("a node is left out of an answer", node=peer, reason=answer)
            else:
                raise answer
        return begun

    async def _enter(self) -> None:
        """Once, for all that is asked: who would need two places might wait for itself."""
        if self._room is None or self._is_in:
            return
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                await self._room.acquire()
        except TimeoutError:
            raise Refusal(503, "unavailable", "too many requests about all nodes") from None
        self._is_in = True

    def leave(self) -> None:
        for answer in self._answers:
            answer.close()
        if self._room is not None and self._is_in:
            self._is_in = False
            self._room.release()
