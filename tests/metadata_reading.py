"""Looking at a metadata store: what is in it, and what its watchers are told."""

from __future__ import annotations

from collections.abc import Sequence

from warren.metadata.store import Change, MetadataStore, Record


async def read(store: MetadataStore, key: str) -> Record:
    record = await store.get(key)
    assert record is not None
    return record


async def contents(store: MetadataStore) -> dict[str, bytes]:
    return {record.key: record.value for record in await store.range("")}


class Told:
    """What a watcher was told, as one list of (key, value or None) per call."""

    def __init__(self) -> None:
        self.calls: list[list[tuple[str, bytes | None]]] = []

    def __call__(self, changes: Sequence[Change]) -> None:
        self.calls.append([(c.key, c.record.value if c.record else None) for c in changes])
