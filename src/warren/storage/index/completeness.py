"""Whether all files are there that the others speak of.

A crash damages what was being written, and a bad disk damages anything: such bytes are passed over,
counted and reported, and the node starts (recovery.py). Neither makes a whole file disappear. Its
name was made safe before anything spoke of it, and nothing speaks of it any more when it is
deleted. So if one is missing, somebody has copied a part of a directory, or deleted one; starting
would throw away messages that may still be somewhere else. Then nothing is touched and the operator
is told which files are missing, and how to go on without them, which is to remove those that ask.

    checkpoint          asks for segments with something alive, files of the message store with
                        something alive, and the journal file that was current
    a journal file      asks for the one before it, as far back as the checkpoint needs them
    `.vhost`            asks for a journal at all

Without a checkpoint there is only the last of these: what is there is all that is known of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from warren.storage.disk.files import Disk
from warren.storage.disk.layout import SEGMENT_SUFFIX, IndexLayout, numbered
from warren.storage.index.checkpoint import Checkpoint, QueueState
from warren.storage.index.journal import file_of

NAMED_MAX: Final = 3
"""How many of the missing files an operator is told of by name."""


class FilesMissing(Exception):
    """Nothing was changed; the text says what is missing and what can be done."""

    def __init__(self, layout: IndexLayout, missing: list[Path], asking: list[Path]) -> None:
        named = ", ".join(map(str, missing[:NAMED_MAX]))
        more = f" and {len(missing) - NAMED_MAX} more" if len(missing) > NAMED_MAX else ""
        without = " and ".join(map(str, asking))
        super().__init__(
            f"messages of virtual host '{layout.vhost}' are not all there, as in a backup that was "
            f"copied in part: {named}{more} missing; copy what is missing to its place, or, to "
            f"start without the messages in it, remove {without}"
        )


def missing_journal_files(
    layout: IndexLayout, checkpoint: Checkpoint | None, previous: Mapping[int, int]
) -> list[Path]:
    """`previous` are the journal files that there are, with those before them, or -1."""
    if checkpoint is None:
        return []
    asked_for = {file_of(checkpoint.store_position)}
    asked_for.update(before for number, before in previous.items() if number > before)
    first = checkpoint.journal_from
    missing = sorted(n for n in asked_for if n >= first and n not in previous)
    return [layout.journal_file(number) for number in missing]


def missing_segments(layout: IndexLayout, disk: Disk, states: Iterable[QueueState]) -> list[Path]:
    missing: list[Path] = []
    for state in states:
        needed = [number for number, segment in state.segments.items() if segment.readable]
        if needed:
            directory = layout.queue_directory(state.name)
            there = _numbers_in(disk, directory)
            missing += [layout.segment_file(state.name, n) for n in needed if n not in there]
    return missing


def _numbers_in(disk: Disk, directory: Path) -> set[int]:
    try:
        return set(numbered(disk.list(directory), SEGMENT_SUFFIX))
    except FileNotFoundError:
        return set()
