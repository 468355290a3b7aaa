"""The ids that deduplicating exchanges remember, from one life of a node to the next.

Saved by a stop in good order alone, when no client can publish any more and before anything else
goes: see `routing/deduplicating.py`. What a start has read is removed, since it is not true any
more as soon as something is published.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from warren.broker.vhost import VirtualHost
from warren.model.logs import EventLog
from warren.model.unreadable import UNREADABLE
from warren.routing.deduplicating import SavedId
from warren.server.data_directory import WINDOWS_FILE

_log = EventLog("exchange")


class _Saved(msgspec.Struct, frozen=True, array_like=True):
    vhost: str
    exchange: str
    ids: list[SavedId]


_DECODER: Final = msgspec.msgpack.Decoder(list[_Saved])


class ExchangeWindows:
    def __init__(self, data_dir: Path, vhosts: Mapping[str, VirtualHost]) -> None:
        self._path = data_dir / WINDOWS_FILE
        self._vhosts = vhosts

    async def recall(self) -> None:
        data = await asyncio.to_thread(_take, self._path)
        try:
            windows = _DECODER.decode(data) if data else []
        except UNREADABLE as error:
            _log.warning("what exchanges remembered cannot be read", reason=error)
            return
        for saved in windows:
            vhost = self._vhosts.get(saved.vhost)
            exchange = None if vhost is None else vhost.exchanges.get(saved.exchange)
            window = None if exchange is None else exchange.saved_window
            if window is not None:
                window.remember(saved.ids)

    async def save(self) -> None:
        windows = [
            _Saved(vhost.name, name, window.remembered())
            for vhost in self._vhosts.values()
            for name, exchange in vhost.exchanges.items()
            if (window := exchange.saved_window) is not None
        ]
        if not windows:
            return
        try:
            await asyncio.to_thread(_put, self._path, msgspec.msgpack.encode(windows))
        except OSError as error:
            _log.warning("what exchanges remember cannot be saved", reason=error)


def _take(path: Path) -> bytes:
    """What is there, which is then there no more."""
    if not path.exists():
        return b""
    data = path.read_bytes()
    path.unlink()
    return data


def _put(path: Path, data: bytes) -> None:
    """All of it or nothing."""
    draft = path.with_name(f"{path.name}.new")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
