"""What every connection looks at once per read: is there anything that could hold it up?

Nearly always there is not, and then this is one attribute. While it is on, connections take the
careful way (see `server/throttle.py`) and may end up waiting here:

- for alarms, because they published while a node was short of something, or while this node
  could not act at all (`freeze`);
- for a credit, because they charged it when it was exhausted.

They go on in the order they came, a few per turn of the loop: each has a read's worth of work, and
a thousand at once would keep everybody else waiting. The brake stays on until the last has gone,
so that none is overtaken by its own later frames.
"""

from __future__ import annotations

from typing import Final, Protocol

from warren.flow.alarms import AlarmBoard, AlarmChange, blocked_reason
from warren.flow.credit import Credit
from warren.model.clock import Clock

RESUMED_PER_TURN_MAX: Final = 16


class Held(Protocol):
    def go_on(self) -> None:
        """What it waited for is over."""
        ...


class Brake:
    def __init__(self, board: AlarmBoard, clock: Clock) -> None:
        self.is_on = False
        self.board = board
        self.clock = clock
        self.overdrawn: Credit | None = None
        """The credit that was charged last without having room: clear this, publish, look again."""
        self.frozen_reason = ""
        """Why this node may not act at the moment, if so."""
        self._exhausted: dict[Credit, None] = {}
        self._blocked: dict[Held, None] = {}
        self._waiting: dict[Credit, dict[Held, None]] = {}
        self._is_resuming = False
        board.listeners.append(self._alarm_changed)

    @property
    def has_alarm(self) -> bool:
        """Publishers are to wait."""
        return bool(self.board.resources or self.frozen_reason)

    @property
    def blocked_reason(self) -> str:
        """What connection.blocked says."""
        return self.frozen_reason or blocked_reason(self.board.resources)

    def freeze(self, reason: str) -> None:
        self.frozen_reason = reason
        self._update()

    def thaw(self) -> None:
        self.frozen_reason = ""
        self._update()
        self._resume_soon()

    def watch(self, credit: Credit) -> None:
        """From now on those who overdraw it wait."""
        credit.on_exhausted = self._credit_exhausted
        credit.on_available = self._credit_available
        if credit.is_exhausted:
            self._credit_exhausted(credit)

    def forget(self, credit: Credit) -> None:
        """It is of no interest any more (its store is closed), and nobody waits for it."""
        credit.on_exhausted = None
        credit.on_available = None
        credit.is_exhausted = False
        self._credit_available(credit)

    def clear_overdraft(self) -> None:
        self.overdrawn = None

    def wait_for_alarms(self, held: Held) -> None:
        assert self.has_alarm, "there is nothing to wait for"
        self._blocked[held] = None

    def wait_for_credit(self, held: Held, credit: Credit) -> None:
        assert credit.is_exhausted, "there is nothing to wait for"
        self._waiting.setdefault(credit, {})[held] = None

    def leave(self, held: Held) -> None:
        """It waits no more: its connection is closing."""
        self._blocked.pop(held, None)
        for waiting in self._waiting.values():
            waiting.pop(held, None)
        self._update()

    def _alarm_changed(self, _change: AlarmChange) -> None:
        self._update()
        self._resume_soon()

    def _credit_exhausted(self, credit: Credit) -> None:
        self.overdrawn = credit
        self._exhausted[credit] = None
        self.is_on = True

    def _credit_available(self, credit: Credit) -> None:
        self._exhausted.pop(credit, None)
        credit.free_debtors(self.clock.now_ms())
        self._update()
        self._resume_soon()

    def _update(self) -> None:
        self._waiting = {credit: held for credit, held in self._waiting.items() if held}
        self.is_on = bool(self.has_alarm or self._exhausted or self._blocked or self._waiting)

    def _resume_soon(self) -> None:
        if not self._is_resuming and (self._blocked or self._waiting):
            self._is_resuming = True
            self.clock.call_later(0, self._resume)

    def _resume(self) -> None:
        self._is_resuming = False
        for _ in range(RESUMED_PER_TURN_MAX):
            held = self._next_free()
            if held is None:
                break
            held.go_on()
        else:
            self._resume_soon()
        self._update()

    def _next_free(self) -> Held | None:
        """Who may go on, taken from where it waited."""
        if self._blocked and not self.has_alarm:
            return _first_of(self._blocked)
        for credit, waiting in self._waiting.items():
            if waiting and not credit.is_exhausted:
                return _first_of(waiting)
        return None


def _first_of(waiting: dict[Held, None]) -> Held:
    held = next(iter(waiting))
    del waiting[held]
    return held
