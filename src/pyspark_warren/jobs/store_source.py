"""Source of DataFrames with the stores of nodes, a partition for each virtual host of each node."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pyspark_warren.errors import InvalidOption
from pyspark_warren.jobs.stores import findings, vhost_directories

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ROWS_PER_BATCH: Final = 10_000
SCHEMA: Final = (
    "node string, kind string, vhost string, queue string, sequence bigint, hash string, "
    "message_id string, bytes bigint, records bigint, text string"
)
_ARROW: Final = pa.schema(
    [
        (name, pa.int64() if kind == "bigint" else pa.string())
        for name, kind in (column.split() for column in SCHEMA.split(", "))
    ]
)


def parse_nodes(text: str) -> dict[str, str]:
    """Return names and data directories of `a=/data/a,b=/data/b`. Raises InvalidOption."""
    nodes: dict[str, str] = {}
    for part in text.split(","):
        name, equals, path = part.strip().partition("=")
        if not (name and equals and path) or name in nodes:
            raise InvalidOption(f"option nodes: {part.strip()!r} is not NAME=DIRECTORY, once each")
        if not vhost_directories(Path(path)):
            raise InvalidOption(f"option nodes: {path} is not a data directory with messages")
        nodes[name] = path
    return nodes


class StorePartition(InputPartition):
    def __init__(self, node: str, directory: str) -> None:
        super().__init__(f"{node}:{directory}")
        self.node = node
        self.directory = directory


class StoreReader(DataSourceReader):
    """Reader of nodes' stores, one virtual host of one node at a time."""

    def __init__(self, nodes: dict[str, str], *, with_ids: bool) -> None:
        self._nodes = nodes
        self._with_ids = with_ids

    def partitions(self) -> Sequence[InputPartition]:
        return [
            StorePartition(node, str(directory))
            for node, path in self._nodes.items()
            for directory in vhost_directories(Path(path))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StorePartition), "there are no others"
        found = findings(Path(partition.directory), with_ids=self._with_ids)
        rows = [{"node": partition.node, **asdict(one)} for one in found]
        for start in range(0, len(rows), ROWS_PER_BATCH):
            yield pa.RecordBatch.from_pylist(rows[start : start + ROWS_PER_BATCH], schema=_ARROW)


class StoreSource(DataSource):
    """`spark.read.format("warren-stores").option("nodes", "a=/data/a,b=/data/b")`.

    Option `ids`: `true` adds a row for each message id in streams.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "warren-stores"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        with_ids = self.options.get("ids", "false") == "true"
        return StoreReader(parse_nodes(self.options["nodes"]), with_ids=with_ids)
