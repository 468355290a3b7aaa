"""What the management API of one node asks that of another, over the link between the two.

    asker                                   answerer
      | Inquire(id, user, request) ------------>|
      |<--------- AnswerBegins(id, status) -----|
      |<--------- AnswerPart(id, data) ---------|   at most PARTS_AHEAD_MAX without a WantMore
      | WantMore(id) -------------------------->|
      |<--------- AnswerPart(id, data, last) ---|

The link is there anyway, and both ends have proved who they are: no other port has to be open, and
no secret goes with a request. Answers may be long and share the link with messages, so they come in
parts, few at a time. A question is asked once: when the link breaks nobody knows whether it was
heard, and asking again might do something twice. Pure; `server/served_inquiries.py` answers.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final, Protocol

from warren.cluster.link.control import (
    AnswerBegins,
    AnswerPart,
    Control,
    Dismiss,
    Inquire,
    OfAnswerer,
    WantMore,
)

PART_BYTES_MAX: Final = 65_536
PARTS_AHEAD_MAX: Final = 4
# It goes in one frame.
QUESTION_BYTES_MAX: Final = 524_288


class Inquirer(Protocol):
    """Who asked, and hears the answer."""

    def begun(self, status: int, headers: dict[str, str]) -> None: ...

    def heard(self, data: bytes, is_last: bool) -> None: ...

    def failed(self) -> None:
        """There will be no (more) answer."""
        ...


class Inquiries:
    """Those of this node to one other, by number."""

    def __init__(self, tell: Callable[[Control], None]) -> None:
        self._tell = tell
        self._numbers = count(1)
        self._open: dict[int, Inquirer] = {}

    def ask(self, make: Callable[[int], Inquire], inquirer: Inquirer) -> int:
        number = next(self._numbers)
        self._open[number] = inquirer
        self._tell(make(number))
        return number

    def heard(self, control: OfAnswerer) -> None:
        inquirer = self._open.get(control.id)
        if inquirer is None:
            return  # dismissed while this was under way
        match control:
            case AnswerBegins(_, status, headers):
                inquirer.begun(status, headers)
            case AnswerPart(number, data, is_last):
                if is_last:
                    del self._open[number]
                inquirer.heard(data, is_last)

    def want_more(self, number: int) -> None:
        if number in self._open:
            self._tell(WantMore(number))

    def dismiss(self, number: int) -> None:
        if self._open.pop(number, None) is not None:
            self._tell(Dismiss(number))

    def disconnected(self) -> None:
        orphans, self._open = self._open, {}
        for inquirer in orphans.values():
            inquirer.failed()
