"""A member's two links: the stream from its left, held back if need be, and that to its right.

A stream is what one member sends to its right-hand neighbour: a catchup, with all that it knows,
and then activity, numbered, with what is new. Whenever something may have been lost, the next
stream begins, so nothing is ever sent again piece by piece, and a gap is never stepped over.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from warren.replication.gm.frames import Activity, Catchup, Frame, Payload
from warren.replication.group_record import Member

# Frames of those who know a newer record than we do wait for it, one link's as many as a window.
HELD_FRAMES_MAX: Final = 2_048
HELD_BYTES_MAX: Final = 16_777_216


class LeftStream:
    """Which frames from the left follow on what we have."""

    def __init__(self, sender: Member) -> None:
        self.sender = sender
        self.seen = 0
        self._stream = 0
        self._awaited = 0

    @property
    def is_in_step(self) -> bool:
        return self._stream == self.seen > 0

    def begins_with(self, catchup: Catchup) -> bool:
        is_new = self._stream < catchup.stream >= self.seen
        if catchup.sender != self.sender.id or not is_new:
            return False
        self.seen = self._stream = catchup.stream
        self._awaited = 1
        return True

    def goes_on_with(self, activity: Activity) -> bool:
        return (
            activity.sender == self.sender.id
            and activity.stream == self._stream
            and activity.number == self._awaited
        )

    def advance(self) -> None:
        self._awaited += 1

    def misses_some_before(self, activity: Activity) -> bool:
        """True once for every stream that has a gap: it is of no use any more."""
        if activity.sender != self.sender.id:
            return False
        is_gap = activity.stream > self.seen or (
            activity.stream == self._stream and activity.number > self._awaited
        )
        if is_gap:
            self.lose(activity.stream)
        return is_gap

    def lose(self, stream: int) -> None:
        """Something of this stream will not come; what is of an earlier one does not matter."""
        if stream < self._stream:
            return
        self.seen = max(self.seen, stream)
        self._stream = 0


class RightStream:
    """The frames we send to our right. Those of a link that is down are not even made."""

    def __init__(self, to: Member, stream: int) -> None:
        self.to = to
        self.stream = stream
        self.is_link_up = True
        self._number = 0

    def begin(self) -> int:
        self.stream += 1
        self._number = 0
        return self.stream

    def next_number(self) -> int:
        self._number += 1
        return self._number


class HeldFrames:
    """What came of a newer view than ours, by sender, in order."""

    def __init__(self) -> None:
        self._frames: dict[str, deque[tuple[Frame, tuple[Payload, ...]]]] = {}
        self._count = 0
        self._bytes = 0
        self._overflown: dict[str, int] = {}

    def is_held(self, sender: str) -> bool:
        return sender in self._frames or sender in self._overflown

    def hold(self, frame: Frame, payloads: tuple[Payload, ...]) -> bool:
        """True for the first of its sender: there is something to be found out."""
        sender = frame.sender
        is_first = not self.is_held(sender)
        size = sum(map(len, payloads))
        if self._count >= HELD_FRAMES_MAX or self._bytes + size > HELD_BYTES_MAX:
            # Whoever sent so much is asked to begin anew when we have come so far.
            self._drop(sender)
            self._overflown[sender] = 0
        if sender in self._overflown:
            stream = frame.stream if isinstance(frame, Activity | Catchup) else 0
            self._overflown[sender] = max(self._overflown[sender], stream)
        else:
            self._frames.setdefault(sender, deque()).append((frame, payloads))
            self._count += 1
            self._bytes += size
        return is_first

    def release(self, view: int) -> list[tuple[Frame, tuple[Payload, ...]]]:
        """Those that need not wait any more, now that we know this view."""
        released = []
        for sender, frames in list(self._frames.items()):
            while frames and frames[0][0].view <= view:
                frame, payloads = frames.popleft()
                self._count -= 1
                self._bytes -= sum(map(len, payloads))
                released.append((frame, payloads))
            if not frames:
                del self._frames[sender]
        return released

    def take_overflown(self) -> list[tuple[str, int]]:
        """Whose frames were too many to hold, and the last stream that they belonged to."""
        overflown, self._overflown = self._overflown, {}
        return list(overflown.items())

    def _drop(self, sender: str) -> None:
        for _, payloads in self._frames.pop(sender, ()):
            self._count -= 1
            self._bytes -= sum(map(len, payloads))
