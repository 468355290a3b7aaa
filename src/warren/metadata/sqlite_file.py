"""The SQLite file of the metadata store: opening it with suspicion, writing batches to it.

Everything here blocks, and runs on the writer thread of `sqlite.SqliteStore`.

The file says of itself whose it is (`application_id`) and how it is laid out (`user_version`),
and each row carries a checksum: SQLite in WAL mode checks what it replays after a crash but not
what it reads later, and a flipped bit in a permission is worse than a broker that does not start.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from warren.metadata.store import MetadataUnavailable, MetadataUnusable, Record

APPLICATION_ID: Final = 0x57524E4D  # "WRNM"
SCHEMA_VERSION: Final = 1

# After a checkpoint the log is cut to this, so that one large import does not hold disk for ever.
_LOG_BYTES_KEPT: Final = 16 * 1_048_576

_CREATE: Final = (
    """CREATE TABLE records (
        key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO counters VALUES ('revision', 0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
_PUT: Final = "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)"
_DELETE: Final = "DELETE FROM records WHERE key = ?"
_SET_REVISION: Final = "UPDATE counters SET value = ? WHERE name = 'revision'"

_RESTORE: Final = "restore it from a backup, or move it away to start with empty metadata"


def checksum(record: Record) -> int:
    return zlib.crc32(b"%s\0%d\0%s" % (record.key.encode(), record.version, record.value))


class MetadataFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None

    def open(self) -> tuple[list[Record], int]:
        """Make or check the file; returns all that is in it and the last revision."""
        is_new = not self.path.exists()
        try:
            self._connection = self._connect(mode="rwc")
            is_blank = self._is_blank()
            if not is_blank:
                self._require_ours()
            self._configure(self._connection)
            if is_blank:
                self._create()
            loaded = self._load()
        except (sqlite3.Error, MetadataUnusable) as error:
            self.close()
            if isinstance(error, MetadataUnusable):
                raise
            raise self._unusable(error) from error
        if is_new:
            self._sync_directory()
        return loaded

    def write(self, puts: Sequence[Record], deletes: Sequence[str], revision: int) -> None:
        """All of it on stable storage on return, or MetadataUnavailable."""
        try:
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_DELETE, [(key,) for key in deletes])
            connection.executemany(_PUT, [(r.key, r.value, r.version, checksum(r)) for r in puts])
            connection.execute(_SET_REVISION, (revision,))
            connection.execute("COMMIT")
        except (sqlite3.Error, MetadataUnusable) as error:
            # A connection that failed once may fail for ever; the next write makes a new one.
            self.close()
            raise MetadataUnavailable(f"cannot write {self.path}: {error}") from error

    def close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.OperationalError):
                self._connection.close()
            self._connection = None

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=0)
        # Exclusive: reads are served from a copy in memory, so nobody may write behind it.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        return connection

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect(mode="rw")
            self._require_ours()
            self._configure(self._connection)
        return self._connection

    @staticmethod
    def _configure(connection: sqlite3.Connection) -> None:
        """Changes the file, so only once it is known to be ours."""
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES_KEPT}")

    def _value(self, query: str) -> object:
        assert self._connection is not None
        row = self._connection.execute(query).fetchone()
        return None if row is None else row[0]

    def _is_blank(self) -> bool:
        """Nothing was ever written here, except perhaps by a start that was killed half-way."""
        return (
            self._value("PRAGMA application_id") == 0
            and self._value("PRAGMA user_version") == 0
            and self._value("SELECT count(*) FROM sqlite_master") == 0
        )

    def _create(self) -> None:
        assert self._connection is not None
        self._connection.execute("BEGIN IMMEDIATE")
        for statement in _CREATE:
            self._connection.execute(statement)
        self._connection.execute("COMMIT")

    def _require_ours(self) -> None:
        if self._value("PRAGMA application_id") != APPLICATION_ID:
            raise MetadataUnusable(
                f"{self.path} is a database of another program; "
                "move it away or choose another data directory"
            )
        schema = self._value("PRAGMA user_version")
        if not isinstance(schema, int) or schema > SCHEMA_VERSION:
            raise MetadataUnusable(
                f"{self.path} was written by a newer Warren (layout {schema}, this one knows "
                f"{SCHEMA_VERSION}); start that version, or restore a backup of this one"
            )

    def _load(self) -> tuple[list[Record], int]:
        assert self._connection is not None
        fault = self._value("PRAGMA quick_check(1)")
        if fault != "ok":
            raise MetadataUnusable(f"{self.path} is corrupt ({fault}); {_RESTORE}")
        records = []
        for key, value, version, stored in self._connection.execute("SELECT * FROM records"):
            record = Record(key, value, version)
            if checksum(record) != stored:
                raise MetadataUnusable(f"{self.path} is corrupt (record {key!r}); {_RESTORE}")
            records.append(record)
        revision = self._value("SELECT value FROM counters WHERE name = 'revision'")
        if not isinstance(revision, int):
            raise MetadataUnusable(f"{self.path} is corrupt (no revision); {_RESTORE}")
        return records, revision

    def _unusable(self, error: sqlite3.Error) -> MetadataUnusable:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_NOTADB":
            return MetadataUnusable(
                f"{self.path} is not a metadata file (nor any SQLite file); "
                "move it away or choose another data directory"
            )
        if name.startswith("SQLITE_CORRUPT"):
            return MetadataUnusable(f"{self.path} is corrupt ({error}); {_RESTORE}")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return MetadataUnusable(f"{self.path} is open in another program; close it there")
        return MetadataUnusable(
            f"cannot open {self.path}: {error}; check the disk and the permissions of the file"
        )

    def _sync_directory(self) -> None:
        """A file whose name is not on disk is lost with the power, whatever is in it."""
        descriptor = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
