"""What a backing queue says about itself, in RabbitMQ's words."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Final

RATE_HALF_LIFE_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class BackingFigures:
    """Bytes are those of bodies. `persistent` counts ready and unacknowledged messages.

    Paged out is what has no body in memory: betas, gammas and deltas; `unacked_paged_out` counts
    unacknowledged messages like that, which are not among them.
    """

    ready: int = 0
    ready_bytes: int = 0
    unacked: int = 0
    unacked_bytes: int = 0
    persistent: int = 0
    persistent_bytes: int = 0
    paged_out: int = 0
    paged_out_bytes: int = 0
    unacked_paged_out: int = 0
    unacked_paged_out_bytes: int = 0

    def __add__(self, other: BackingFigures) -> BackingFigures:
        sums = [ours + theirs for ours, theirs in zip(astuple(self), astuple(other), strict=True)]
        return BackingFigures(*sums)

    def named(self) -> dict[str, int]:
        away = self.paged_out + self.unacked_paged_out
        away_bytes = self.paged_out_bytes + self.unacked_paged_out_bytes
        return {
            "message_bytes": self.ready_bytes + self.unacked_bytes,
            "message_bytes_paged_out": away_bytes,
            "message_bytes_persistent": self.persistent_bytes,
            "message_bytes_ram": self.ready_bytes + self.unacked_bytes - away_bytes,
            "message_bytes_ready": self.ready_bytes,
            "message_bytes_unacknowledged": self.unacked_bytes,
            "messages": self.ready + self.unacked,
            "messages_paged_out": away,
            "messages_persistent": self.persistent,
            "messages_ram": self.ready + self.unacked - away,
            "messages_ready": self.ready,
            "messages_ready_ram": self.ready - self.paged_out,
            "messages_unacknowledged": self.unacked,
            "messages_unacknowledged_ram": self.unacked - self.unacked_paged_out,
        }


class OperationRates:
    """Messages in and out per second, the past counting half as much every five seconds.

    Nothing is counted for it: totals are compared with those of the last time somebody asked.
    """

    def __init__(self) -> None:
        self._at_ms: int | None = None
        self._totals = (0, 0, 0, 0)
        self._rates = (0.0, 0.0, 0.0, 0.0)

    def sample(self, now_ms: int, published: int, ready: int, unacked: int) -> dict[str, float]:
        """Of `published` in all, so many are `ready`; the others have been handed out, and all
        but the unacknowledged ones of these are settled."""
        out = published - ready
        totals = (published, out, out, out - unacked)
        if self._at_ms is None:
            self._at_ms, self._totals = now_ms, totals
        elif now_ms > self._at_ms:
            elapsed_ms = now_ms - self._at_ms
            weight: float = 0.5 ** (elapsed_ms / RATE_HALF_LIFE_MS)
            pairs = zip(totals, self._totals, self._rates, strict=True)
            rates = [
                weight * rate + (1 - weight) * max(0, total - before) * 1_000 / elapsed_ms
                for total, before, rate in pairs
            ]
            self._rates = (rates[0], rates[1], rates[2], rates[3])
            self._at_ms, self._totals = now_ms, totals
        names = ("avg_ingress_rate", "avg_egress_rate", "avg_ack_ingress_rate",
                 "avg_ack_egress_rate")  # fmt: skip
        return dict(zip(names, self._rates, strict=True))
