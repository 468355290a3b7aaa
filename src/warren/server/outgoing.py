"""What one client is sent: collected during a turn of the loop, written at its end.

Two limits keep a client that does not read from filling our memory. Deliveries stop as soon as the
transport holds more than the socket takes (`is_congested`): consumers are parked until it has
drained. Answers to the client's own questions cannot be held back like that; when too many lie
unread, we stop reading questions (`is_unread`).

A client that reads fast should not wait for the end of the turn, in which a publisher may bring
thousands of messages: whenever enough has gathered it is written at once.

**Frozen.** A node whose tenure is over delivers and confirms nothing, and may say everything else
(heartbeats, connection.blocked, errors). Before each write the tenure is asked. If it turns out to
be over, whatever is encoded by then, here and for all others, is *withheld*: it cannot be told
apart any more. From then on deliveries are held back as if the client did not read, confirms stay
in their list, and what is encoded is harmless. Withheld words are written first of all after the
thaw; if the node lost its session meanwhile, they are void, and so is the connection.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from warren.server.flush_scheduler import FlushScheduler
from warren.server.socket_writer import write_now
from warren.wire.codec import OutputBuffer

# Written before the turn ends, and what the transport may hold beyond the socket's own room.
EARLY_WRITE_BYTES: Final = 131_072
TRANSPORT_BYTES_HIGH: Final = 262_144
TRANSPORT_BYTES_LOW: Final = 65_536
# Answers a client has asked for and does not read; beyond that we do not read its questions.
UNREAD_BYTES_MAX: Final = 4_194_304


class Confirming(Protocol):
    def flush(self) -> None:
        """Write what is to be confirmed by now."""
        ...


class Outgoing:
    __slots__ = (
        "_confirms_due", "_drained", "_fd", "_is_waiting", "_turn", "_withheld", "is_paused",
        "output", "transport", "writes",
    )  # fmt: skip

    def __init__(self, frame_max: int, turn: FlushScheduler) -> None:
        self._turn = turn
        self._confirms_due: list[Confirming] = []
        self._drained: asyncio.Future[None] | None = None
        self._fd = -1
        # Whether the end of this turn will come to us. While confirms are encoded there it still
        # is so: else the first of them would ask for another turn, and the loop go round in vain.
        self._is_waiting = False
        self._withheld: list[bytes | memoryview] = []
        self.is_paused = False
        self.writes = 0
        self.transport: asyncio.Transport | None = None
        self.output = OutputBuffer(
            frame_max, EARLY_WRITE_BYTES, self._await_turn, self._write_early
        )

    def attach(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(TRANSPORT_BYTES_HIGH, TRANSPORT_BYTES_LOW)
        if transport.get_extra_info("sslcontext") is None:
            self._fd = transport.get_extra_info("socket").fileno()
        self.transport = transport
        self._turn.open.add(self)
        self.output.is_congested = self._turn.tenure.is_frozen

    def detach(self) -> None:
        """The socket is gone; what was still to be said is dropped."""
        self._turn.open.discard(self)
        self.transport = None
        self._withheld.clear()
        self.output.take()
        self.output.waiting.clear()
        self._confirms_due.clear()
        self._tell_drained()

    @property
    def is_unread(self) -> bool:
        transport = self.transport
        return transport is not None and transport.get_write_buffer_size() > UNREAD_BYTES_MAX

    @property
    def unsent_bytes(self) -> int:
        """What the socket has not taken yet."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def confirms_due(self, confirms: Confirming) -> None:
        self._await_turn()
        self._confirms_due.append(confirms)

    def flush(self) -> None:
        """Write what this turn produced, confirms last; then the consumers may have more."""
        if self._confirms_due and self._turn.tenure.holds():
            due, self._confirms_due = self._confirms_due, []
            for confirms in due:
                confirms.flush()
        self._is_waiting = False
        self._write()
        if not self.is_paused and (self.output.is_congested or self.output.waiting):
            self._wake_consumers()

    def freeze(self) -> None:
        self.output.is_congested = True
        if self.output.size:
            self._withheld += self.output.take()

    def thaw(self) -> None:
        withheld, self._withheld = self._withheld, []
        if withheld and self.transport is not None:
            write_now(self.transport, self._fd, withheld)
        if self._confirms_due:
            self._await_turn()
        if not self.is_paused:
            self._wake_consumers()

    def forfeit(self) -> None:
        if self._withheld and self.transport is not None:
            self.transport.abort()

    def pause(self) -> None:
        self.is_paused = True
        self.output.is_congested = True

    def resume(self) -> None:
        self.is_paused = False
        self._tell_drained()
        self._wake_consumers()

    async def drained(self) -> None:
        if self.is_paused and self.transport is not None:
            self._drained = self._drained or asyncio.get_running_loop().create_future()
            await self._drained

    def _await_turn(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._turn.add(self)

    def _write_early(self) -> None:
        self._write()
        self.output.is_congested = self.is_paused or self._turn.tenure.is_frozen

    def _write(self) -> None:
        self._turn.tenure.holds()  # if not, what we have has just been withheld
        pieces = self.output.take()
        if self._withheld:
            self._withheld += pieces
        elif pieces and self.transport is not None:
            self.writes += 1
            write_now(self.transport, self._fd, pieces)

    def _wake_consumers(self) -> None:
        if self._turn.tenure.is_frozen:
            return
        self.output.is_congested = False
        waiting, self.output.waiting = self.output.waiting, []
        for consumer in waiting:
            consumer.wake()

    def _tell_drained(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
