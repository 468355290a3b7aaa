"""Which segments a stream may let go of: whole ones, oldest first, never the newest."""

from __future__ import annotations

from collections.abc import Sequence

from warren.storage.disk.files import Disk
from warren.streams.segments import Segment, SegmentFiles


def removable(
    segments: Sequence[Segment],
    bytes_max: int | None,
    oldest_ms: int | None,
    held_from: int | None = None,
) -> int:
    """How many of the first segments are beyond these limits.

    `oldest_ms`: a segment is too old if all it has is from before that. `held_from`: somebody has
    still to read what is at this offset and after it.
    """
    total = sum(segment.size for segment in segments)
    count = 0
    for segment in segments[:-1]:
        is_too_much = bytes_max is not None and total > bytes_max
        is_too_old = oldest_ms is not None and segment.last_ms < oldest_ms
        is_held = held_from is not None and segment.end > held_from
        if is_held or not (is_too_much or is_too_old):
            break
        total -= segment.size
        count += 1
    return count


def unlink_segments(disk: Disk, files: SegmentFiles, segments: Sequence[Segment]) -> list[OSError]:
    """The oldest first, so that a crash leaves no hole; what could not be done. Blocks."""
    errors = []
    for segment in segments:
        for path in (files.data(segment.base), files.index(segment.base)):
            try:
                disk.unlink(path)
            except OSError as error:
                errors.append(error)
    return errors
