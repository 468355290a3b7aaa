"""How fast a queue is synchronised: how much goes in a batch, and how long to wait after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CHECK_MS: Final = 50
"""How often the throughput is looked at, at most."""


@dataclass(frozen=True, slots=True)
class SyncSettings:
    batch_size: int
    """Messages; `ha-sync-batch-size` of the policy, or `mirroring_sync_batch_size`."""
    bytes_per_s: int = 0
    """`mirroring_sync_max_throughput`; 0: as fast as mirrors take it."""


def is_batch_due(count: int, batch_size: int, sent_bytes: int, bytes_per_s: int) -> bool:
    """Whether it has enough messages, or with it more has been sent than may be in a second."""
    return count >= batch_size or (bytes_per_s > 0 and sent_bytes > bytes_per_s)


def pause_ms(sent_bytes: int, elapsed_ms: int, bytes_per_s: int) -> int:
    """How long to wait after having sent so much in that time."""
    if not bytes_per_s:
        return 0
    return max(0, sent_bytes * 1_000 // bytes_per_s - elapsed_ms)


class Throttle:
    """What was sent since the throughput was last looked at."""

    def __init__(self, now_ms: int) -> None:
        self.sent_bytes = 0
        self._since_ms = now_ms

    def sent(self, size: int, bytes_per_s: int, now_ms: int) -> int:
        """How long to wait now."""
        self.sent_bytes += size
        elapsed_ms = now_ms - self._since_ms
        if elapsed_ms < CHECK_MS and not is_batch_due(0, 1, self.sent_bytes, bytes_per_s):
            return 0
        pause = pause_ms(self.sent_bytes, elapsed_ms, bytes_per_s)
        self.sent_bytes = 0
        self._since_ms = now_ms + pause
        return pause
