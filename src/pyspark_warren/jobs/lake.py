"""A lake: tables of Parquet files that get each batch once, and show nothing that is half done.

Spark's own file sink keeps a list of good files beside them; whoever reads without that list sees
what failed tasks left behind, and the files can never be put together. Here there is no list to
know: every file in a table counts, whoever reads it. A batch gets in like this:

    1. tasks write to `_staging/<batch>-<random>/<table>/...`      nobody looks there
    2. `_commits/<batch>.json` appears, in one rename               the batch counts from here on
    3. files are moved from staging into the tables, by name        as the commit says
    4. staging is deleted

Killed before 2, the batch is run again, and what the first try left is deleted. Killed after 2,
`recover` does what remains of 3 and 4, and the batch, when Spark runs it again, is known to be
done. A move that was done is not done twice, as names are fixed in the commit. So a message is in
the tables once, or not yet; and never twice, not even for a moment.

Spark numbers batches by checkpoint. A lake that was filled from another checkpoint would take the
first batches of a new one for done, so each commit says which query it is of, and another one is
refused.

Compactions (`compaction.py`) go the same way, but have files to delete as well, and no file system
can take some files away and put another in their place in one step: whoever looks in between would
see rows twice, or not at all, and never know. So while that goes on there is a file in the folder
that is none of Parquet's, its guard: it comes first and goes last. Who sees the guard, or has
listed files that are gone by the time they are opened, gets an error, and the right rows when it is
tried again. A reader gets every row once, or an error; never something else.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pyspark_warren.errors import WarrenError
from pyspark_warren.jobs.files import File, Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES: Final = "messages"
QUARANTINE: Final = "quarantine"
TABLES: Final = (MESSAGES, QUARANTINE)
CHECKPOINT: Final = "_checkpoint"
_COMMITS: Final = "_commits"
_STAGING: Final = "_staging"
# Spark runs no batch again but the last; the others are kept to look at.
COMMITS_KEPT: Final = 100
_SUFFIX: Final = ".parquet"
GUARD: Final = f"being-compacted-read-again{_SUFFIX}"
# Not empty, as Spark skips files that are.
_GUARD_TEXT: Final = "Files here are being put together. Read again when this one is gone.\n"


class ForeignLake(WarrenError):
    """The lake was filled by another query."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What makes up one batch: where its files are staged and where they belong."""

    name: str
    query: str
    staging: str
    rows: dict[str, int]
    """How many came to each table."""
    removals: list[str] = field(default_factory=list)
    moves: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_batch(self) -> bool:
        return self.name[0].isdigit()


class Lake:
    def __init__(self, spark: SparkSession, root: str) -> None:
        self.files = Files(spark, root)

    @property
    def checkpoint(self) -> str:
        return self.files.whole(CHECKPOINT)

    def table(self, name: str) -> str:
        return self.files.whole(name)

    def parts(self, table: str) -> list[File]:
        return self.files.walk(table, _SUFFIX)

    def recover(self) -> None:
        """Finishes what was committed and not finished, and deletes what was not committed."""
        for name in self._commit_names():
            self._finish(self._read(name))
        self.files.delete(_STAGING)

    def has_batch(self, query: str, batch: int) -> bool:
        """Raises ForeignLake if what is there is not of this query."""
        name = batch_name(batch)
        batches = [other for other in self._commit_names() if other[0].isdigit()]
        if not batches:
            return False
        newest = self._read(batches[-1])
        if newest.query != query:
            raise ForeignLake(
                f"{self.files.root} was filled from another checkpoint, so what it has already is "
                "not known: give back its checkpoint, or begin another lake"
            )
        return name <= newest.name

    def stage(self, name: str) -> str:
        """A folder of its own for one try of a batch."""
        return f"{_STAGING}/{name}-{uuid.uuid4().hex[:8]}"

    def commit(self, draft: Commit) -> None:
        """Everything staged belongs to the tables from now on, what is to be removed does not."""
        moves = [
            (part.path, _final(part.path.removeprefix(f"{draft.staging}/"), draft.name, number))
            for number, part in enumerate(self.files.walk(draft.staging, _SUFFIX))
        ]
        commit = replace(draft, moves=moves)
        self.files.write(f"{_COMMITS}/{commit.name}.json", json.dumps(asdict(commit)))
        self._finish(commit)
        self._prune()

    def _finish(self, commit: Commit) -> None:
        if self.files.exists(commit.staging):  # deleted last: if it is gone, all is done
            with self._guarded(commit):
                for source, target in commit.moves:
                    self.files.move(source, target)
                for path in commit.removals:
                    self.files.delete(path)
            self.files.delete(commit.staging)
        if not commit.is_batch:
            self.files.delete(f"{_COMMITS}/{commit.name}.json")

    @contextmanager
    def _guarded(self, commit: Commit) -> Iterator[None]:
        """If this ends by an error, guards stay: then somebody has to `recover`."""
        folders = {path.rpartition("/")[0] for path in commit.removals}
        guards = [f"{folder}/{GUARD}" for folder in sorted(folders)]
        for guard in guards:
            if not self.files.exists(guard):
                self.files.write(guard, _GUARD_TEXT)
        yield
        for guard in guards:
            self.files.delete(guard)

    def _commit_names(self) -> list[str]:
        return [name.removesuffix(".json") for name in self.files.names(_COMMITS)]

    def _read(self, name: str) -> Commit:
        shown = json.loads(self.files.read(f"{_COMMITS}/{name}.json"))
        return Commit(**{**shown, "moves": [(a, b) for a, b in shown["moves"]]})

    def _prune(self) -> None:
        for name in self._commit_names()[:-COMMITS_KEPT]:
            self.files.delete(f"{_COMMITS}/{name}.json")


def batch_name(batch: int) -> str:
    """So that names sort as numbers do."""
    return f"{batch:010d}"


def _final(staged: str, name: str, number: int) -> str:
    """`messages/queue=q/hour=h/part-....parquet` with the batch's name instead of Spark's."""
    folder = staged.rpartition("/")[0]
    return f"{folder}/{name}-{number:05d}{_SUFFIX}"
