"""A stream reader that refuses: it raises what is wrong with the options when Spark first calls it.

Spark's runner of stream readers stumbles over its own clean-up where no reader could be made, and
then shows that error last, below the one that says what to do. So wrong options make a reader, too,
of which every method raises the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_warren.errors import WarrenError


class RefusedStreamReader(DataSourceStreamReader):
    """Raises the same error whatever it is asked."""

    def __init__(self, error: WarrenError) -> None:
        self._error = error

    def _refuse(self) -> NoReturn:
        raise self._error

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Raises the error."""
        self._refuse()

    def latestOffset(self, *_: object) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Raises the error."""
        self._refuse()

    def partitions(self, start: object, end: object) -> Sequence[InputPartition]:
        """Raises the error."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises the error."""
        self._refuse()
