"""The sizes that decide which file a message goes to, and when that file is followed by another."""

from __future__ import annotations

from typing import Final, NamedTuple

from warren.storage.bodies.store_files import FILE_BYTES
from warren.storage.index.journal import JOURNAL_FILE_BYTES


class StorageSizes(NamedTuple):
    """In bytes. They may change from one start to the next: files say what they hold."""

    embed_below: int = 4_096
    store_file: int = FILE_BYTES
    journal_file: int = JOURNAL_FILE_BYTES


DEFAULT_SIZES: Final = StorageSizes()
