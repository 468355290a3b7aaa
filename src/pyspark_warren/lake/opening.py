"""Opens the tables of a lake, makes those that are missing, and refuses rows that do not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa
from pyarrow import fs

from pyspark_warren.errors import WarrenError
from pyspark_warren.lake import PARTITION_COLUMNS
from pyspark_warren.lake.delta import RETENTION_S, DeltaLakeTable
from pyspark_warren.lake.plain import BATCHES, PlainTable
from pyspark_warren.lake.schemas import SchemaDiffers, differences, merged

if TYPE_CHECKING:
    from pyspark_warren.lake.storage import Storage

TableFormat = Literal["delta", "parquet"]
SchemaEvolution = Literal["refuse", "merge"]
LakeTable = DeltaLakeTable | PlainTable
# Where the layout before Delta kept its commits.
OLD_COMMITS: Final = "_commits"


class OtherLayout(WarrenError):
    """The lake was made by an earlier version, or in the other format."""


@dataclass(frozen=True, slots=True)
class LakeFormat:
    """How the tables of a lake are kept. May be pickled to another process."""

    storage: Storage
    table_format: TableFormat = "delta"
    schema_evolution: SchemaEvolution = "refuse"
    retention_s: float = RETENTION_S

    def open(self, name: str, rows: pa.Schema) -> tuple[LakeTable, pa.Schema]:
        """Return a table, made if there is none, and the schema that its new files have.

        Raises
        ------
        OtherLayout
            If the lake was made by an earlier version, or in the other format.
        SchemaDiffers
            If the rows have columns or types that the table has not, and may not add them.
        LakeUnavailable
            If there is no access to the place.
        """
        with self.storage.explained():
            return self._open(name, rows)

    def _open(self, name: str, rows: pa.Schema) -> tuple[LakeTable, pa.Schema]:
        self._check_layout(name)
        if self.table_format == "parquet":
            plain = PlainTable(self.storage, name)
            known = plain.schema
            return plain, rows if known is None else self._joined(name, known, rows)
        table = DeltaLakeTable.open(self.storage, name)
        if table is None:
            table = DeltaLakeTable.create(self.storage, name, rows, self.retention_s)
        if table.partition_columns != PARTITION_COLUMNS:
            raise OtherLayout(
                f"{self.storage.url}/{name} is a Delta table by "
                f"{', '.join(table.partition_columns) or 'no column'}, and a lake's are by "
                f"{', '.join(PARTITION_COLUMNS)}: begin another lake"
            )
        table.retain(self.retention_s)
        known = table.schema
        schema = self._joined(name, known, rows)
        if differences(known, schema):
            table.add_columns(schema)
        return table, schema

    def _joined(self, name: str, known: pa.Schema, rows: pa.Schema) -> pa.Schema:
        found = differences(known, rows)
        if not found:
            return known
        place = f"{self.storage.url}/{name}"
        if found.changed:
            raise SchemaDiffers(
                f"{place} has another schema: {found}. Types are never changed: decode by the "
                "table's schema, or begin another lake"
            )
        if self.schema_evolution == "refuse":
            raise SchemaDiffers(
                f"{place} has another schema: {found}. With --schema-evolution merge, new columns "
                "are added and missing ones are null"
            )
        return merged(known, rows)

    def _check_layout(self, name: str) -> None:
        filesystem, root = self.storage.open()

        def has(path: str) -> bool:
            return bool(filesystem.get_file_info(f"{root}/{path}").type != fs.FileType.NotFound)

        is_delta = has(f"{name}/_delta_log")
        if has(OLD_COMMITS) and not is_delta:
            raise OtherLayout(
                f"{self.storage.url} was made by an earlier version: convert it, once, with "
                f"warren pipeline convert --lake {self.storage.url}"
            )
        if self.table_format == "parquet" and is_delta:
            raise OtherLayout(
                f"{self.storage.url}/{name} is a Delta table: leave out --table-format"
            )
        if self.table_format == "delta" and has(f"{BATCHES}/{name}"):
            raise OtherLayout(
                f"{self.storage.url}/{name} has plain Parquet files: give --table-format parquet"
            )


def find_table(storage: Storage, name: str) -> LakeTable | None:
    """Return a table that is there, whatever its format, to read it. Raises LakeUnavailable."""
    with storage.explained():
        filesystem, root = storage.open()
        log = filesystem.get_file_info(f"{root}/{name}/_delta_log")
        if log.type != fs.FileType.NotFound:  # without one, no package for Delta is needed
            return DeltaLakeTable.open(storage, name)
        plain = PlainTable(storage, name)
        return plain if plain.schema is not None else None
