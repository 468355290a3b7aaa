"""Who goes after whom: work that shares a key keeps the order of the calls, the rest runs at once.

etcd decides in the order requests reach its log, which for two requests under way at once may be
either. So a request is sent only when everything asked for earlier that could notice the
difference has been answered: a write waits for the writes and reads of its keys, a read for the
writes. Reads of one key do not wait for each other; a virtual host's own key is read by everything
declared in it. Pure but for the futures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

Done: TypeAlias = "asyncio.Future[None]"


@dataclass(slots=True)
class _Line:
    """Who is at a key: the last writer, and the readers since."""

    writer: Done | None = None
    readers: set[Done] = field(default_factory=set)


class KeyOrder:
    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    def take(self, done: Done, reads: Iterable[str], writes: Iterable[str]) -> set[Done]:
        """Stand in line at all keys; says for whom to wait. `done` is to be set in any case."""
        before: set[Done] = set()
        touched = dict.fromkeys(reads, False) | dict.fromkeys(writes, True)
        for key, is_write in touched.items():
            line = self._lines.setdefault(key, _Line())
            if line.writer is not None:
                before.add(line.writer)
            if is_write:
                before |= line.readers
                line.readers.clear()
                line.writer = done
            else:
                line.readers.add(done)
        done.add_done_callback(lambda _: self._leave(done, touched))
        return before

    def _leave(self, done: Done, keys: Iterable[str]) -> None:
        for key in keys:
            line = self._lines.get(key)
            if line is None:
                continue
            line.readers.discard(done)
            if line.writer is done:
                line.writer = None
            if line.writer is None and not line.readers:
                del self._lines[key]
