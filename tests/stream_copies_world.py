"""A stream's master and its mirrors in one place: disks are real, the ring is a loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stream_world import StreamWorld, a_message, all_records, until
from warren.replication.classic.master import MasterBacking
from warren.replication.classic.sync_pace import SyncSettings
from warren.replication.classic.synchroniser import SyncEvent
from warren.replication.stream.copier import StreamCopier
from warren.replication.stream.stream_master import StreamMaster
from warren.replication.stream.stream_mirror import StreamMirror
from warren.storage.disk.files import Disk
from warren.streams.log import StreamLog


class Copy:
    """One node's copy of a stream."""

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        directory.mkdir(exist_ok=True)
        self.world = StreamWorld(directory, disk)
        self.log: StreamLog
        self.mirror: StreamMirror

    async def open(self) -> Copy:
        self.log = await self.world.log()
        return self

    def records(self) -> list[tuple[int, bytes]]:
        return [(offset, message.body) for offset, message in all_records(self.log)]

    def files(self) -> dict[str, bytes]:
        """Its segments, put together."""
        paths = sorted(self.log.files.directory.glob("*.segment"))
        return {"data": b"".join(path.read_bytes() for path in paths)}


class StreamCopies:
    """Broadcasts wait in `sent` until `deliver`; `copies` are those of mirrors."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.master: StreamMaster
        self.copier: StreamCopier
        self.here: Copy
        self.copies: dict[str, Copy] = {}
        self.sent: list[bytes] = []
        self.complete: list[str] = []
        self.is_handing_over = False
        self._admitted_from: dict[str, int] = {}
        self.failed: list[str] = []
        self.confirmed: list[int] = []
        self.rejections: list[int] = []
        self.published = 0
        self.is_sync_paused = False
        self.is_sync_blocking = False
        self.told: list[SyncEvent] = []
        self.steps: list[Callable[[], None]] = []
        self.is_held_back = False
        """Whether what mirrors hold is not told to the master."""

    async def begin(self, disk: Disk | None = None) -> None:
        self.here = await Copy(self.directory / "here", disk).open()
        self.lead(self.here)
        self.master.begin()

    def lead(self, copy: Copy) -> None:
        self.here = copy
        self._admitted_from.clear()
        self.master = StreamMaster(copy.log, "here", self)
        self.copier = StreamCopier(self.master, self)

    async def join(self, name: str, copy: Copy | None = None) -> Copy:
        if copy is None:
            copy = await Copy(self.directory / name).open()
        self.copies[name] = copy
        copy.mirror = StreamMirror(
            name,
            copy.log,
            lambda number, _: self.hold(name, number),
            lambda: self.failed.append(name),
        )
        self.begin_with(name)
        return copy

    def begin_with(self, name: str) -> None:
        """A mirror that is there tells what it has."""
        remains = self.copies[name].mirror.report_retained()
        self.master.begin_with(name, remains)

    async def join_in_sync(self, name: str, copy: Copy | None = None) -> Copy:
        copy = await self.join(name, copy)
        await self.until(lambda: name in self.complete)
        return copy

    def hold(self, name: str, number: int) -> None:
        if not self.is_held_back:
            self.master.held(name, number)
            self.copier.wake()

    # The ring.

    def broadcast(self, payload: bytes) -> None:
        self.sent.append(payload)

    def flush_due(self, master: MasterBacking, urgency: int) -> None:
        self.steps.append(master.flush)

    def refused(self) -> bool:
        """True if a mirror is about to lead: none is, unless a test says so."""
        return self.is_handing_over

    def covered(self, member: str) -> None:
        self.complete.append(member)
        self._admitted_from[member] = self.master.number
        self.master.set_in_sync({*self.master.in_sync, member})

    @property
    def counted_on(self) -> list[str]:
        """Those in sync by the record: waited for, and known to hold what was there before."""
        held, wanted = self.master.held_by, self._admitted_from
        return sorted(m for m in self.master.in_sync if held.get(m, -1) >= wanted.get(m, -1))

    # What a copier asks for.

    def now_ms(self) -> int:
        return 0

    def call_later(self, delay_ms: int, do: Callable[[], None]) -> None:
        self.steps.append(do)

    def sync_settings(self) -> SyncSettings:
        return SyncSettings(batch_size=1)

    def sync_told(self, event: SyncEvent) -> None:
        self.told.append(event)

    def caught_up(self, member: str, kept: int, sent: int) -> None: ...

    # What a test does.

    def deliver(self) -> None:
        steps, self.steps = self.steps, []
        for step in steps:
            step()
        sent, self.sent = self.sent, []
        for payload in sent:
            for copy in self.copies.values():
                copy.mirror.handle(payload)

    async def until(self, holds: Callable[[], bool]) -> None:
        def step() -> bool:
            self.deliver()
            return holds()

        await until(step)

    def publish(self, *bodies: bytes) -> int:
        """The number of the last one, under which it is confirmed."""
        for body in bodies:
            self.published += 1
            self.master.publish(a_message(body), 0, _Publisher(self), self.published)
        return self.published

    async def commit(self, *bodies: bytes) -> None:
        """One after another, so that each is a chunk."""
        for body in bodies:
            number = self.publish(body)
            await self.until(lambda number=number: number in self.confirmed)  # type: ignore[misc]

    async def close(self) -> None:
        for copy in (self.here, *self.copies.values()):
            await copy.world.store.close()


class _Publisher:
    """A client of this node."""

    origin = None

    def __init__(self, world: StreamCopies) -> None:
        self._world = world

    def confirmed(self, sequence: int) -> None:
        self._world.confirmed.append(sequence)

    def rejected(self, sequence: int) -> None:
        self._world.rejections.append(sequence)
