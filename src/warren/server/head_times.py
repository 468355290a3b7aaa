"""Times of queues' heads: when the oldest message of each came, kept over restarts and failovers.

A queue knows in memory when its messages came (`queues/waiting_times.py`); neither the disk nor
mirrors have it, as it would cost bytes for every message. Instead one number per queue is kept
beside the messages: when its present head came. Every few seconds, if it has changed by more than a
small part of the age, it is written to a file and told to the other nodes. A queue that is made
with messages in it, by a start, a promotion or a move, begins with that number.

The head may have moved on since then, so an age may be a little too high, and is not too low. If
nothing is known of a queue (its node was killed before the first round), its messages count as
having come when it was made.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from warren.broker.vhost import VirtualHost
from warren.cluster.link.control import Counted
from warren.model.clock import Clock
from warren.model.logs import EventLog
from warren.model.records import QueueName
from warren.model.unreadable import UNREADABLE
from warren.queues.queue import Queue
from warren.server.data_directory import HEADS_FILE

INTERVAL_MS: Final = 5_000
# Smaller changes, and changes by a smaller part of the age, are not worth being told or written.
CHANGE_MS_MIN: Final = 500
CHANGE_PART_MIN: Final = 50
QUEUES_MAX: Final = 100_000
QUEUES_PER_NEWS: Final = 500
_QUEUES_AT_ONCE: Final = 1_000
_SCOPE: Final = "head"
_BETWEEN: Final = "\0"

_log = EventLog("queue")
_DECODER: Final = msgspec.msgpack.Decoder(list[tuple[str, str, int]])


class HeadTimes:
    """`known` has, by queue, when its head came, in the clock's milliseconds."""

    def __init__(self, data_dir: Path, vhosts: Mapping[str, VirtualHost], clock: Clock) -> None:
        self.known: dict[QueueName, int] = {}
        self.tell: Callable[[Iterable[Counted]], None] = lambda _news: None
        """Lets the other nodes have news."""
        self._path = data_dir / HEADS_FILE
        self._vhosts = vhosts
        self._clock = clock
        self._is_changed = False

    async def recall(self) -> None:
        """Read what the last life has written, before queues are made."""
        try:
            data = await asyncio.to_thread(_read, self._path)
            heads = _DECODER.decode(data) if data else []
        except (OSError, *UNREADABLE) as error:
            _log.warning("ages of messages in queues are not known", reason=error)
            return
        self.known = {(vhost, queue): head_ms for vhost, queue, head_ms in heads}

    def looking(self) -> Iterator[None]:
        """Look at all queues of this node, a slice at a time, and tell what has changed."""
        queues = [queue for vhost in self._vhosts.values() for queue in vhost.queues_here()]
        changed: dict[QueueName, int] = {}
        for start in range(0, len(queues), _QUEUES_AT_ONCE):
            now_ms = self._clock.now_ms()
            for queue in queues[start : start + _QUEUES_AT_ONCE]:
                age_ms = queue.head_age_ms(now_ms)
                # Most queues of a node that has very many are empty, and have been so.
                if age_ms is not None or self.known:
                    self._look_at(queue, now_ms, age_ms, changed)
            yield
        self._forget_deleted()
        self._is_changed = self._is_changed or bool(changed)
        self.tell(_news(changed))

    def _look_at(
        self, queue: Queue, now_ms: int, age_ms: int | None, changed: dict[QueueName, int]
    ) -> None:
        name = (queue.record.vhost, queue.record.name)
        if age_ms is None:
            if self.known.pop(name, None) is not None:
                changed[name] = 0
            return
        head_ms = now_ms - age_ms
        before = self.known.get(name)
        change_ms = max(CHANGE_MS_MIN, age_ms // CHANGE_PART_MIN)
        is_news = before is None or abs(head_ms - before) >= change_ms
        if is_news and (before is not None or len(self.known) < QUEUES_MAX):
            self.known[name] = changed[name] = head_ms

    def _forget_deleted(self) -> None:
        vhosts = self._vhosts
        gone = [n for n in self.known if n[0] not in vhosts or n[1] not in vhosts[n[0]].queues]
        for name in gone:
            del self.known[name]
        self._is_changed = self._is_changed or bool(gone)

    def whole(self) -> list[Counted]:
        """Return the news for a node that has heard nothing yet."""
        return _news({name: ms for name, ms in self.known.items() if self._is_here(name)})

    def _is_here(self, name: QueueName) -> bool:
        vhost = self._vhosts.get(name[0])
        return vhost is not None and isinstance(vhost.queues.get(name[1]), Queue)

    def heard(self, news: Counted) -> bool:
        """Take news of another node; False if they are about something else."""
        if not news.counts or news.counts[0][0] != _SCOPE:
            return False
        for _, text, head_ms in news.counts:
            vhost, _, queue = text.partition(_BETWEEN)
            if self._is_here((vhost, queue)):
                continue  # it has just moved here, and this node knows better
            if head_ms:
                self.known[vhost, queue] = head_ms
            else:
                self.known.pop((vhost, queue), None)
            self._is_changed = True
        return True

    async def save(self) -> None:
        """Write what is known, if it has changed since the last time."""
        if not self._is_changed:
            return
        self._is_changed = False
        heads = [(vhost, queue, head_ms) for (vhost, queue), head_ms in self.known.items()]
        try:
            await asyncio.to_thread(_write, self._path, heads)
        except OSError as error:
            self._is_changed = True
            _log.warning("ages of messages in queues cannot be saved", reason=error)

    async def close(self) -> None:
        """Look once more and save, before queues go."""
        for _ in self.looking():
            await asyncio.sleep(0)
        await self.save()


def _news(heads: Mapping[QueueName, int]) -> list[Counted]:
    told = ((_SCOPE, f"{vhost}{_BETWEEN}{queue}", ms) for (vhost, queue), ms in heads.items())
    news = []
    while piece := tuple(islice(told, QUEUES_PER_NEWS)):
        news.append(Counted(False, piece))
    return news


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _write(path: Path, heads: list[tuple[str, str, int]]) -> None:
    """All of it or nothing. Not synced: it is worth less than the write would cost."""
    draft = path.with_name(f"{path.name}.new")
    try:
        draft.write_bytes(msgspec.msgpack.encode(heads))
        os.replace(draft, path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
