"""Record store of a simulated world: one key, compare-and-set, sessions, and slow answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from support.schedule import Schedule

Value = TypeVar("Value")


class RecordStore(Generic[Value]):
    """Requests take effect one after the other, some time after they were made; the answer takes
    its time, too. So does the news of a change, which may skip values, and may be late.
    """

    def __init__(self, schedule: Schedule, delay_us_max: int = 2_000) -> None:
        self._schedule = schedule
        self._delay_us_max = delay_us_max
        self.value: Value | None = None
        self.revision = 0
        self.sessions: set[tuple[str, str]] = set()
        self._watchers: dict[str, Callable[[Value | None, int], None]] = {}
        self._is_telling: set[str] = set()

    def watch(self, name: str, tell: Callable[[Value | None, int], None]) -> None:
        self._watchers[name] = tell
        self._tell_later(name)

    def read(self, name: str) -> None:
        """Read the record now, which tells as much as news of it."""
        self._tell_later(name)

    def compare_and_set(
        self,
        value: Value | None,
        revision: int | None,
        gone: tuple[tuple[str, str], ...],
        answer: Callable[[bool], None],
    ) -> None:
        """`revision` None: only if there is nothing. No session in `gone` may exist."""

        def take_effect() -> None:
            is_expected = self.value is None if revision is None else self.revision == revision
            is_stored = is_expected and not any(session in self.sessions for session in gone)
            if is_stored:
                self.put(value)
            self._schedule.soon(self._delay_us_max, lambda: answer(is_stored))

        self._schedule.soon(self._delay_us_max, take_effect)

    def put(self, value: Value | None) -> None:
        self.value = value
        self.revision += 1
        for name in sorted(self._watchers):
            self._tell_later(name)

    def _tell_later(self, name: str) -> None:
        if name in self._is_telling:
            return
        self._is_telling.add(name)

        def look() -> None:
            self._is_telling.discard(name)
            self._schedule.soon(self._delay_us_max, self._news_for(name))

        self._schedule.soon(self._delay_us_max, look)

    def _news_for(self, name: str) -> Callable[[], None]:
        """Return a call that tells a watcher of the record as it is now."""
        value, revision = self.value, self.revision
        tell = self._watchers[name]
        return lambda: tell(value, revision)
