"""Fuzz target: definitions that are imported into a real broker, without sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final, cast

from broker_world import BrokerWorld
from warren.management.definitions_import import DefinitionsImport
from warren.management.errors import REFUSED, Refusal

# Then another broker is taken, so that what was imported does not pile up.
IMPORTS_MAX: Final = 500


class _Importer:
    """A broker with its store in a directory of its own."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory(prefix="fuzz-definitions-")
        self._loop = asyncio.new_event_loop()
        self._world = BrokerWorld(Path(self._directory.name))
        self._loop.run_until_complete(self._world.__aenter__())
        node = SimpleNamespace(broker=self._world.broker, messages=SimpleNamespace(open=_opened))
        self._node = cast("Any", node)
        self.imports = 0

    def run(self, data: bytes) -> None:
        self.imports += 1
        self._loop.run_until_complete(DefinitionsImport(self._node, "fuzz").run(data))

    def close(self) -> None:
        self._loop.run_until_complete(self._world.__aexit__())
        self._loop.close()
        self._directory.cleanup()


async def _opened(_vhost: str) -> None:
    """Messages are kept in memory."""


_importers: Final[list[_Importer]] = []


def definitions(data: bytes) -> None:
    """A definitions file: what it describes is made, or refused."""
    if _importers and _importers[0].imports >= IMPORTS_MAX:
        _importers.pop().close()
    if not _importers:
        _importers.append(_Importer())
    try:
        _importers[0].run(data)
    except (Refusal, *REFUSED):
        return
