"""Who is told of changes: the watchers of a store, whatever its engine."""

from __future__ import annotations

import asyncio
from typing import Final

from warren.metadata.store import CancelWatch, MetadataUnavailable, WatchCallback
from warren.metadata.view import Effects, as_changes

WATCHERS_MAX: Final = 1_024


class Watchers:
    def __init__(self) -> None:
        self._callbacks: dict[object, WatchCallback] = {}

    def add(self, callback: WatchCallback) -> CancelWatch:
        if len(self._callbacks) >= WATCHERS_MAX:
            raise MetadataUnavailable(f"there are {WATCHERS_MAX} watchers already")
        token = object()
        self._callbacks[token] = callback

        def cancel() -> None:
            self._callbacks.pop(token, None)

        return cancel

    def tell(self, effects: Effects) -> None:
        """Of one transaction that changed something."""
        changes = as_changes(effects)
        for token, callback in tuple(self._callbacks.items()):
            if token not in self._callbacks:
                continue  # cancelled by one called before
            try:
                callback(changes)
            except Exception as error:  # noqa: BLE001 - a watcher's fault is not the caller's
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "a metadata watcher failed", "exception": error}
                )
