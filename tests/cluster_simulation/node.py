"""A simulated node through all its processes: what is on its disk outlives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cluster_simulation.disk import SavedDisk, saved_has
from cluster_simulation.process import Process

if TYPE_CHECKING:
    from cluster_simulation.world import World


class SimNode:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.process: Process | None = None
        self.boots = 0
        self.last_lease = 0
        """The lease of the last session, as the data directory has it."""
        self.is_disk_full = False
        self.is_cut_from_store = False
        self._saved: SavedDisk = {}

    @property
    def is_up(self) -> bool:
        return self.process is not None

    @property
    def is_paused(self) -> bool:
        return self.process is not None and self.process.loop.is_paused

    @property
    def running(self) -> Process | None:
        """The process, unless it stands still."""
        return None if self.is_paused else self.process

    def start(self) -> None:
        self.boots += 1
        self.process = Process(self, self._saved)
        self.process.start()

    def start_again(self) -> None:
        """Start a process, unless there is one."""
        if not self.is_up:
            self.start()

    def kill(self) -> None:
        self.ended(is_orderly=False)

    def ended(self, is_orderly: bool) -> None:
        """The process is gone."""
        process = self.process
        if process is not None:
            storage = process.storage
            if is_orderly and not self.is_disk_full:
                for index in tuple(storage.indexes.values()):
                    index.sync()
            process.die()
            self._saved = storage.saved(self.world.schedule.random, is_orderly)
            self.process = None

    def pause(self) -> None:
        if self.process is not None:
            self.process.loop.pause()

    def resume(self) -> None:
        if self.process is not None and self.is_paused:
            self.process.loop.resume()

    def mend_store(self) -> None:
        self.is_cut_from_store = False
        if self.process is not None:
            self.process.store.news()

    def has_safe(self, body: int) -> bool:
        """True if the disk has this message for good."""
        octets = b"%d" % body
        if self.process is None:
            return saved_has(self._saved, octets)
        return self.process.storage.has_safe(octets)

    def do(self, what: Callable[[Process], object]) -> None:
        """Have the process do something, if it runs."""
        process = self.running
        if process is not None:
            process.loop.run(what, process)
