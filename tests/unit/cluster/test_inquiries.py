"""Questions of one API to another: answered in parts, few ahead, never asked twice."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from link_world import LinkWorld
from warren.cluster.link.control import (
    AnswerBegins,
    AnswerPart,
    Control,
    Dismiss,
    Inquire,
    WantMore,
)
from warren.cluster.link.inquiries import PART_BYTES_MAX, PARTS_AHEAD_MAX, Inquiries
from warren.server.served_inquiries import AnswerStream, ServedInquiries, nobody_answers


class Notes:
    """Who asked, noting what it hears."""

    def __init__(self) -> None:
        self.status = 0
        self.parts: list[bytes] = []
        self.is_ended = False
        self.is_failed = False

    def begun(self, status: int, headers: dict[str, str]) -> None:
        self.status = status

    def heard(self, data: bytes, is_last: bool) -> None:
        self.parts.append(data)
        self.is_ended = is_last

    def failed(self) -> None:
        self.is_failed = True


def question(number: int) -> Inquire:
    return Inquire(number, "guest", "GET", "/api/x", "", {}, b"", "")


def spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work)


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def long_answer(_peer: str, _question: Inquire, stream: AnswerStream) -> None:
    stream.begin(200, {})
    await stream.send(bytes(10 * PART_BYTES_MAX), True)


def test_who_asked_hears_status_and_parts_and_asks_for_more() -> None:
    told: list[Control] = []
    inquiries, notes = Inquiries(told.append), Notes()
    number = inquiries.ask(question, notes)
    inquiries.heard(AnswerBegins(number, 200, {}))
    inquiries.heard(AnswerPart(number, b"a", False))
    inquiries.want_more(number)
    inquiries.heard(AnswerPart(number, b"b", True))
    inquiries.want_more(number)
    inquiries.dismiss(number)
    assert (notes.status, notes.parts, notes.is_ended) == (200, [b"a", b"b"], True)
    assert told == [question(number), WantMore(number)], "after the end there is nothing to say"


def test_a_dismissed_answer_is_not_heard() -> None:
    told: list[Control] = []
    inquiries, notes = Inquiries(told.append), Notes()
    number = inquiries.ask(question, notes)
    inquiries.dismiss(number)
    inquiries.heard(AnswerPart(number, b"a", True))
    assert (told[-1], notes.parts) == (Dismiss(number), [])


async def test_a_broken_link_fails_what_was_asked_and_nothing_is_asked_again(
    link: LinkWorld,
) -> None:
    notes = Notes()
    link.asker.inquiries.ask(question, notes)
    link.move()
    assert link.around.inquired_of == [question(1)]
    link.cut()
    assert notes.is_failed
    link.connect()
    link.move()
    assert link.around.inquired_of == []


async def test_an_answer_waits_while_the_asker_has_parts_it_has_not_used() -> None:
    told: list[Control] = []
    served = ServedInquiries("peer", told.append, spawn, long_answer)
    served.heard(question(7))
    await turns()
    parts = [control for control in told if isinstance(control, AnswerPart)]
    assert len(parts) == PARTS_AHEAD_MAX
    assert {len(part.data) for part in parts} == {PART_BYTES_MAX}
    for _ in range(10):
        served.heard(WantMore(7))
        await turns()
    parts = [control for control in told if isinstance(control, AnswerPart)]
    assert [part.is_last for part in parts] == [False] * 9 + [True]


async def test_what_is_dismissed_or_has_lost_its_link_is_given_up() -> None:
    told: list[Control] = []
    served = ServedInquiries("peer", told.append, spawn, long_answer)
    served.heard(question(1))
    served.heard(question(2))
    await turns()
    served.heard(Dismiss(1))
    served.close()
    count = len(told)
    served.heard(WantMore(1))
    served.heard(WantMore(2))
    await turns()
    assert len(told) == count


async def test_where_nobody_answers_that_is_the_answer() -> None:
    told: list[Control] = []
    served = ServedInquiries("peer", told.append, spawn, nobody_answers)
    served.heard(question(1))
    await turns()
    assert told == [AnswerBegins(1, 503, {}), AnswerPart(1, b"", True)]
