"""The comparison's arithmetic, without the brokers."""

from __future__ import annotations

from dataclasses import replace

from bench.compare import COLUMNS, add_rows
from bench.load import Measurement, median
from bench.report import Table, pair, rate, times
from bench.scenarios import SCENARIOS

ONE = Measurement(1000.0, 2.0, 1.0, 3.0, None, None, 0, 0, 0.0)


def test_the_median_is_taken_field_by_field_but_losses_add_up() -> None:
    runs = [replace(ONE, rate=5.0, lost=1), replace(ONE, rate=9.0), replace(ONE, rate=7.0, lost=2)]
    middle = median(runs)
    assert (middle.rate, middle.cpu_us, middle.lost) == (7.0, 2.0, 3)
    assert middle.confirm_p50_ms is None


def test_ratios_are_relative_to_rabbitmq_in_the_same_run() -> None:
    table = Table("t", COLUMNS)
    results = {"Warren": replace(ONE, rate=8000.0, cpu_us=0.5), "RabbitMQ": ONE}
    add_rows(table, SCENARIOS["a"], results)
    assert [list(row[2:4]) + list(row[6:]) for row in table.rows] == [
        ["8.0 k", "0.50", "8.00x", "0.25x", ""],
        ["1.0 k", "2.00", "1.00x", "1.00x", ""],
    ]


def test_at_a_given_rate_latency_is_compared_instead() -> None:
    table = Table("t", COLUMNS)
    add_rows(table, SCENARIOS["i0"], {"Warren": replace(ONE, latency_p99_ms=1.5), "RabbitMQ": ONE})
    assert list(table.rows[0][6:]) == ["", "1.00x", "0.50x"]


def test_losses_are_said_beside_the_figures() -> None:
    table = Table("t", COLUMNS)
    add_rows(table, SCENARIOS["a"], {"Warren": replace(ONE, lost=3, duplicates=1)})
    assert "3 messages missing, 1 duplicated" in table.notes[0]


def test_a_table_becomes_markdown() -> None:
    table = Table("Title", ("name", "value"), [("a", "1")], ["A note."], ["b"])
    assert table.markdown().split("\n") == [
        "## Title", "", "| name | value |", "|---|---:|", "| a | 1 |", "", "A note.", "",
        "Failed: b", "",
    ]  # fmt: skip


def test_figures_are_rounded_for_reading() -> None:
    assert (rate(1_234_567), rate(45_678)) == ("1.23 M", "45.7 k")
    assert (pair(0.123, 4.567), pair(None, 1.0)) == ("0.12 / 4.57", "-")
    assert (times(3, 2), times(3, None)) == ("1.50x", "")
