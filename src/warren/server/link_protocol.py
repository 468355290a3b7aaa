"""A link's socket, the same on both sides: frames in and out, a handshake first, a pulse after.

Until the other side has proved itself it may send small frames only, and not for long. Then the
machine behind takes over: an `LinkClient` on the side that connected, a `LinkServer` on the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from warren.cluster.link.control import (
    Control,
    MalformedControl,
    Ping,
    Refused,
    decode_control,
    encode_control,
    is_control,
)
from warren.cluster.link.handshake import LinkRefused, NotOfThisCluster
from warren.model.logs import EventLog
from warren.server.flush_scheduler import FlushScheduler
from warren.server.outgoing import Outgoing
from warren.server.tls.failures import TLS_CLIENT, is_client_hello
from warren.server.tls.sides import LINKS_KEY
from warren.wire.codec import FrameReader, MethodFrame

LINK_FRAME_BYTES_MAX: Final = 1_048_576
HANDSHAKE_FRAME_BYTES_MAX: Final = 4_096
HANDSHAKE_S_MAX: Final = 5.0
PULSE_S: Final = 0.5
# A link that brings nothing for this many pulses in a row is as good as broken. Pulses are counted,
# not seconds: a node that was itself held up for that long must not blame its links.
SILENT_PULSES_MAX: Final = 5
SILENT_PULSES_MIN: Final = 2

_log = EventLog("link")


def silent_pulses_max(limit_ms: int) -> int:
    """Pulses without an answer after which a link is given up, of nodes that may be silent so long.

    One pulse less than that: there is time for another link before the node is expelled.
    """
    pulses = round(limit_ms / 1000 / PULSE_S) - 1
    return min(max(pulses, SILENT_PULSES_MIN), SILENT_PULSES_MAX)


class Machine(Protocol):
    """What a link is for, once both sides know each other."""

    def process(self, events: list[Any]) -> None: ...


class LinkProtocol(asyncio.Protocol):
    """`handshake(control)` answers until `machine` is given; `on_lost` is called once."""

    def __init__(
        self, flush_scheduler: FlushScheduler, message_size_max: int, is_client: bool
    ) -> None:
        self.outgoing = Outgoing(LINK_FRAME_BYTES_MAX, flush_scheduler)
        self.machine: Machine | None = None
        self.handshake: Callable[[Control], Control | None] | None = None
        self.on_lost: Callable[[str], None] | None = None
        self.binding = b""
        """Value that both ends of the TLS connection have in common; empty without TLS."""
        self.peer = "?"
        self.incarnation = ""
        self.is_refused_for_good = False
        self._reader = FrameReader(HANDSHAKE_FRAME_BYTES_MAX, message_size_max)
        self._reader.is_client = is_client
        self._reader.stepwise = True
        self._transport: asyncio.Transport | None = None
        self._octets_seen = 0
        self.silent_pulses_max = SILENT_PULSES_MAX
        self.silent_ms = 0
        """Time for which it had brought nothing when it was given up; 0 if that was not why."""
        self._silent_pulses = 0
        self._reason = "the other side closed it"
        self._is_turned_away = False
        self.error: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None

    # The socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are, but not by class
        self.outgoing.attach(self._transport)
        self.binding = _binding_of(self._transport)
        if self._is_turned_away:
            self.refuse(self._reason)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(HANDSHAKE_S_MAX, self._too_late)

    def data_received(self, data: bytes) -> None:
        try:
            if self.machine is None and is_client_hello(data):
                raise LinkRefused(f"{TLS_CLIENT}: set {LINKS_KEY} at all nodes, or at none")
            events = self._reader.feed(data)
            while events and self.machine is None:
                self._shake_hands(events.pop(0))
                events = events or self._reader.feed(b"")
            if events and self.machine is not None:
                self.machine.process(events)
        except (LinkRefused, MalformedControl) as error:
            self.is_refused_for_good = isinstance(error, NotOfThisCluster)
            self.refuse(str(error))

    def connection_lost(self, error: Exception | None) -> None:
        self.error = error
        if self._timer is not None:
            self._timer.cancel()
        self.outgoing.detach()
        self._transport = None
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost(str(error) if error is not None else self._reason)

    def pause_writing(self) -> None:
        self.outgoing.pause()

    def resume_writing(self) -> None:
        self.outgoing.resume()

    # The handshake.

    def say(self, control: Control) -> None:
        self.outgoing.output.method(0, encode_control(control))

    def begin(self, machine: Machine) -> None:
        """The other side has proved itself."""
        self.machine = machine
        self._reader.frame_max = LINK_FRAME_BYTES_MAX
        self._reader.stepwise = False
        self._schedule_pulse()

    def refuse(self, reason: str) -> None:
        """Say why and close; the reason is logged by whoever waits for the end."""
        self._reason = reason
        if self._transport is not None and not self._transport.is_closing():
            if self.machine is None:
                self.say(Refused(reason, self.is_refused_for_good))
            self.outgoing.flush()
            self._transport.close()

    def turn_away(self, reason: str) -> None:
        """Refuse a link that may have no socket yet: then as soon as it has one."""
        self._is_turned_away = True
        self.refuse(reason)

    def abort(self, reason: str) -> None:
        self._reason = reason
        if self._transport is not None:
            self._transport.abort()

    def _shake_hands(self, event: object) -> None:
        if not isinstance(event, MethodFrame) or not is_control(event.payload):
            raise LinkRefused("this is a port for nodes of the cluster, not for clients")
        assert self.handshake is not None, "set when the link is made"
        answer = self.handshake(decode_control(event.payload))
        if answer is not None:
            self.say(answer)

    def _too_late(self) -> None:
        if self.machine is None:
            self.refuse(f"no handshake within {HANDSHAKE_S_MAX:g} s")

    # The pulse.

    def _schedule_pulse(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(PULSE_S, self._pulse)

    def _pulse(self) -> None:
        """Both sides send, both look whether anything came."""
        self._silent_pulses += 1
        if self._reader.octets != self._octets_seen:
            self._silent_pulses = 0
            self._octets_seen = self._reader.octets
        if self._silent_pulses >= self.silent_pulses_max:
            # The last word came between two pulses: half a pulse before the first silent one, taken
            # as an average.
            self.silent_ms = int((self._silent_pulses + 0.5) * PULSE_S * 1000)
            self.abort(f"silence for {self._silent_pulses * PULSE_S:g} s")
            return
        self.say(Ping())
        self._schedule_pulse()


def _binding_of(transport: asyncio.Transport) -> bytes:
    """Return the first Finished message of the TLS handshake, an HMAC over all of it.

    Somebody between the nodes who ends their TLS connections has two, with different ones.
    """
    tls = transport.get_extra_info("ssl_object")
    return b"" if tls is None else tls.get_channel_binding("tls-unique") or b""
