"""Columns of plots: gaps are gaps, and growth is not drawn across them."""

from __future__ import annotations

from typing import Any

from warren.management.page.plot_columns import columns_of


def samples(*values: tuple[int, int]) -> list[dict[str, Any]]:
    """Of seconds and values, in the API's order."""
    return [{"timestamp": 1000 * t, "sample": v, "nodes": 2} for t, v in reversed(values)]


def test_time_without_samples_is_a_row_of_nothing() -> None:
    plot = columns_of({"Ready": samples((0, 1), (5, 2), (60, 3))}, 5)
    assert plot["data"] == [[0, 5, 10, 60], [1, 2, None, 3]]


def test_a_line_that_lacks_a_moment_of_another_has_nothing_there() -> None:
    plot = columns_of({"n1": samples((0, 1), (5, 2)), "n2": samples((5, 7))}, 5)
    assert plot["data"] == [[0, 5], [1, 2], [None, 7]]


def test_growth_is_per_second_and_not_known_across_a_gap() -> None:
    lines = {"Published": samples((0, 0), (5, 50), (60, 1_000), (65, 1_005))}
    plot = columns_of(lines, 5, is_growth=True, has_nodes=True)
    assert plot["titles"] == ["Published", "Nodes"]
    assert plot["data"] == [[5, 10, 60, 65], [10, None, None, 1], [2, None, 2, 2]]


def test_nothing_is_a_plot_of_nothing() -> None:
    assert columns_of({"Ready": []}, 5, is_growth=True)["data"] == [[], []]
