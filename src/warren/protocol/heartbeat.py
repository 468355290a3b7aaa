"""Heartbeats: telling the peer that we live, and noticing that it does not.

The naive way notes the time of every read and write; on a busy connection that is work for each
message, to learn what nobody asks about most of the time. Here the hot path pays nothing: the
connection counts its bytes anyway, and a visit twice per interval compares the counts with those of
the visit before.

    visits    |----.----|----.----|----.----|----.----|      one interval = two visits
    outgoing  x    H    H    x    H    H                      H: nothing was written since, so send
    incoming  x              x                   ^ gone       no byte for two intervals

A visit sees only *that* bytes came since the last one, so a peer is noticed missing between 2 and
2.5 intervals after its last byte. The peer is given at most half an interval without a sign from
us, which leaves it a margin of three heartbeats that may be late. All traffic counts as a sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

SILENT_INTERVALS_MAX: Final = 2
HEARTBEAT_FRAME_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    pass


@dataclass(frozen=True, slots=True)
class PeerIsGone:
    """Close without a word: nobody listens. The text is for the log."""

    reason: str


HeartbeatAction: TypeAlias = SendHeartbeat | PeerIsGone


class Heartbeat:
    """One per connection that negotiated an interval above zero; `tick` it every `period_ms`."""

    __slots__ = ("_heard_at_ms", "_interval_s", "_received_bytes", "_sent_bytes")

    def __init__(self, interval_s: int, now_ms: int) -> None:
        assert interval_s > 0, "an interval of zero means no heartbeats: do not make one"
        self._interval_s = interval_s
        self._heard_at_ms = now_ms
        self._received_bytes = 0
        self._sent_bytes: int | None = None

    @property
    def period_ms(self) -> int:
        return self._interval_s * 500

    def tick(
        self, now_ms: int, received_bytes: int, sent_bytes: int, is_reading: bool = True
    ) -> list[HeartbeatAction]:
        """The counts are totals over the connection's life, heartbeats included.

        While we do not read (`is_reading` false), silence proves nothing about the peer.
        """
        if received_bytes != self._received_bytes or not is_reading:
            self._received_bytes = received_bytes
            self._heard_at_ms = now_ms
        elif now_ms - self._heard_at_ms >= self._interval_s * 1000 * SILENT_INTERVALS_MAX:
            return [PeerIsGone(f"missed heartbeats from client, timeout: {self._interval_s}s")]
        if sent_bytes != self._sent_bytes and self._sent_bytes is not None:
            self._sent_bytes = sent_bytes
            return []
        # As RabbitMQ does, the first visit sends one whatever was written before.
        self._sent_bytes = sent_bytes + HEARTBEAT_FRAME_BYTES
        return [SendHeartbeat()]
