"""Effects of a decision: the actions that a node has not returned yet, and what waits for answers.

Everything inside the machine that wants something of the world asks for it here. Timers and
commits are actions with a token; what to do when the event with that token comes is kept here, so
that outside the machine there are only values.

Some parts of the machine are called by the data path and not by an event: a disk that has synced
a mirror's message, a publisher whose message the master has to send on. What they want is gathered
until the turn of the event loop ends, which also makes one frame of many messages: `wake` is
called once, and `TurnEnded` is to follow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from warren.cluster.actions import Action, Commit, SendFrame, SetTimer
from warren.metadata.store import Check, Operation
from warren.replication.gm.frames import Payload
from warren.replication.group_record import SessionGone

TOGETHER_BYTES_MAX: Final = 65_536
"""Frames for one node become one action until they are so many bytes."""


class Waker(Protocol):
    def wake(self) -> None:
        """Have the machine handle `TurnEnded` when the turn of the event loop ends."""
        ...


class Effects:
    def __init__(self, waker: Waker) -> None:
        self._waker = waker
        self._actions: list[Action] = []
        self._is_handling = False
        self._is_woken = False
        self._due: list[Callable[[], None]] = []
        self._timers: dict[int, Callable[[], None]] = {}
        self._answers: dict[int, Callable[[bool], None]] = {}
        self._last_frames: SendFrame | None = None
        """The last action, if that sends frames."""
        self._last_bytes = 0
        self._last_token = 0

    # What parts of the machine ask for.

    def add(self, action: Action) -> None:
        self._last_frames = None
        self._actions.append(action)
        if not self._is_handling:
            self._wake()

    def send_frame(self, node: str, buffers: list[Payload]) -> None:
        """Send a frame of a ring, with the one before if that is for the same node."""
        size = 0
        for buffer in buffers:
            size += len(buffer)
        last = self._last_frames
        if last is not None and last.node == node and self._last_bytes < TOGETHER_BYTES_MAX:
            last.buffers.extend(buffers)
            self._last_bytes += size
            return
        frames = SendFrame(node, buffers)
        self.add(frames)
        self._last_frames = frames
        self._last_bytes = size

    def commit(
        self,
        checks: Sequence[Check],
        operations: Sequence[Operation],
        answered: Callable[[bool], None],
        gone: tuple[SessionGone, ...] = (),
    ) -> None:
        token = self._next_token()
        self._answers[token] = answered
        self.add(Commit(token, tuple(checks), tuple(operations), gone))

    def call_later(self, delay_ms: int, do: Callable[[], None]) -> int:
        token = self._next_token()
        self._timers[token] = do
        self.add(SetTimer(token, delay_ms))
        return token

    def _next_token(self) -> int:
        self._last_token += 1
        return self._last_token

    def cancel(self, token: int) -> None:
        """Forget a timer. Its event will come, and mean nothing."""
        self._timers.pop(token, None)

    def at_end_of_turn(self, do: Callable[[], None]) -> None:
        self._due.append(do)
        self._wake()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._waker.wake()

    # What the machine does with events.

    def begin(self) -> None:
        assert not self._is_handling, "events are handled one after the other"
        self._is_handling = True

    def abandon(self) -> None:
        """An event could not be handled: what it has brought so far goes with the next one."""
        self._is_handling = False
        if self._actions:
            self._wake()

    def end(self) -> list[Action]:
        self._is_handling = False
        self._last_frames = None
        actions, self._actions = self._actions, []
        return actions

    def fire(self, token: int) -> None:
        do = self._timers.pop(token, None)
        if do is not None:
            do()

    def answer(self, token: int, is_stored: bool) -> None:
        answered = self._answers.pop(token, None)
        if answered is not None:
            answered(is_stored)

    def end_turn(self) -> None:
        self._is_woken = False
        due, self._due = self._due, []
        left = deque(due)
        try:
            while left:
                left.popleft()()
        finally:
            if left:  # one has failed, which is no reason to forget the others
                self._due = [*left, *self._due]
                self._wake()
