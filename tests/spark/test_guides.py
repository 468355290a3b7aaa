"""What the README and docs/LAKE.md say about Spark, run as it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession

from documents import ROOT, Block, Reader, blocks_of


def test_a_queue_in_spark_as_the_readme_has_it(
    reader: Reader, spark: SparkSession, channel: BlockingChannel
) -> None:
    for block in blocks_of(ROOT / "README.md"):
        if block.section == "Five minutes to a queue in Spark":
            reader.do(block)
    assert reader.names["clicks"].count() == 1000
    assert channel.queue_delete("clicks")


def sections(name: str) -> list[Block]:
    return [block for block in blocks_of(ROOT / "docs" / "LAKE.md") if block.section == name]


@pytest.fixture
def streams(channel: BlockingChannel) -> Iterator[None]:
    yield
    for name in ("orders", "customers"):
        channel.queue_delete(name)


@pytest.mark.usefixtures("spark", "streams")
def test_a_classic_exchange_into_delta(reader: Reader, tmp_path: Path) -> None:
    reader.replaced = {"/data/": f"{tmp_path}/"}
    ten_lines, publish, again = sections("A classic exchange into Delta, in ten lines")
    code = [line for line in ten_lines.text.splitlines() if line]
    assert len(code) <= 10
    reader.do(ten_lines)
    assert reader.names["done"].messages == 0
    reader.do(publish)
    reader.do(again)
    done = reader.names["done"]
    assert (done.messages, done.quarantined) == (100, 1)
    rows = reader.names["table"].to_pylist()
    assert sorted(row["body"]["id"] for row in rows) == list(range(100))


@pytest.mark.usefixtures("spark", "streams")
def test_bronze_silver_and_gold(reader: Reader, tmp_path: Path) -> None:
    reader.replaced = {"/data/": f"{tmp_path}/"}
    *before, again = sections("Bronze, silver, gold")
    for block in before:
        reader.do(block)

    def rows(table: str) -> list[dict[str, object]]:
        return list(DeltaTable(f"{tmp_path}/shop/{table}").to_pyarrow_table().to_pylist())

    def sold() -> dict[object, int]:
        counted: Counter[object] = Counter()
        for row in rows("gold/sales"):
            counted[row["region"]] += int(str(row["orders"]))
        return dict(counted)

    assert len(rows("bronze/orders/messages")) == 221
    assert len(rows("bronze/orders/quarantine")) == 1
    silver = rows("silver/orders")
    assert sorted(int(str(row["id"])) for row in silver) == list(range(200))
    # Customers c0 and c3 are in the north, and nobody knows c4.
    assert sold() == {"north": 80, "south": 40, "west": 40, "unknown": 40}
    reader.names["run"]()
    assert rows("silver/orders") == silver
    reader.do(again)
    assert sorted(int(str(row["id"])) for row in rows("silver/orders")) == list(range(250))
    assert sum(sold().values()) == 250
    assert sum(float(str(row["total"])) for row in rows("gold/sales")) == 2_500.0
