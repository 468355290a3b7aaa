"""The watchers of a metadata store, whatever its engine: who is told of changes.

**A watcher that raises.** A node is what its watchers have made of the changes. If one of them
fails half way, the node has another topology than its cluster, and nothing would ever mend that:
the change is not told again. So a fault is fatal. The failed watcher is told nothing more, since it
would build on a state that nobody knows. The others are, so that the node can stop in good order.
`on_fault` hears which change it was, and has to end the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from warren.metadata.store import CancelWatch, Change, MetadataUnavailable, WatchCallback
from warren.metadata.view import Effects, as_changes

WATCHERS_MAX: Final = 1_024
# Keys of a change that a fault names; the rest is counted.
KEYS_NAMED_MAX: Final = 5

OnFault: TypeAlias = Callable[[str, BaseException], None]
"""Called with what could not be applied, and why; the holder of the store must not go on."""


class Watchers:
    def __init__(self, on_fault: OnFault) -> None:
        self._callbacks: dict[object, WatchCallback] = {}
        self._on_fault = on_fault

    def add(self, callback: WatchCallback) -> CancelWatch:
        if len(self._callbacks) >= WATCHERS_MAX:
            raise MetadataUnavailable(f"there are {WATCHERS_MAX} watchers already")
        token = object()
        self._callbacks[token] = callback

        def cancel() -> None:
            self._callbacks.pop(token, None)

        return cancel

    def tell(self, effects: Effects) -> None:
        """Call every watcher with the changes of one transaction."""
        changes = as_changes(effects)
        for token, callback in tuple(self._callbacks.items()):
            if token not in self._callbacks:
                continue  # cancelled by one called before
            try:
                callback(changes)
            except Exception as error:  # noqa: BLE001 - whatever it is, the node has to end
                self._callbacks.pop(token, None)
                self._on_fault(named(changes), error)


def named(changes: Sequence[Change]) -> str:
    """Return what a log says of a transaction: its keys, and which of them it deletes."""
    words = [
        change.key if change.record is not None else f"{change.key} (deleted)"
        for change in changes[:KEYS_NAMED_MAX]
    ]
    if len(changes) > KEYS_NAMED_MAX:
        words.append(f"and {len(changes) - KEYS_NAMED_MAX} more")
    return ", ".join(words)


def tell_loop(change: str, error: BaseException) -> None:
    """Hand a fault to the event loop's handler: for a store that no node depends on."""
    asyncio.get_running_loop().call_exception_handler(
        {"message": f"a watcher failed at a change of the metadata: {change}", "exception": error}
    )
