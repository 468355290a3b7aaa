"""Reports of jobs: axes, spans of time, windows that are kept, and what is said of a path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyspark_warren.errors import InvalidOption
from pyspark_warren.jobs import plots
from pyspark_warren.jobs.diagnosis import Bottleneck
from pyspark_warren.jobs.reports import Report, check_writable
from pyspark_warren.jobs.telemetry_report import SPANS_MAX, report_of, spans_of
from pyspark_warren.jobs.windows import FILES_MAX, FOLDER, Telemetry, Window, WindowFiles

START_MS = 1_800_000_000_000


class PlainFiles:
    """Files of a lake, of a directory of this machine and without Spark."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        path = self._root / folder
        return sorted(os.listdir(path)) if path.exists() else []

    def read(self, path: str) -> str:
        return (self._root / path).read_text()

    def write(self, path: str, text: str) -> None:
        (self._root / path).parent.mkdir(exist_ok=True)
        (self._root / path).write_text(text)

    def delete(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)


def window(number: int, **figures: float) -> Window:
    return Window(START_MS + number * 10_000, "n", "", dict(figures))


@pytest.mark.parametrize(
    ("greatest", "top", "steps"),
    [(0, 1, 1), (1, 1, 1), (3, 3, 3), (87, 100, 2), (100, 100, 2), (4_100, 6_000, 3)],
)
def test_an_axis_has_few_round_numbers(greatest: float, top: float, steps: int) -> None:
    scale = plots.scale_of(greatest, least_step=1)
    assert (scale.top, scale.steps) == (top, steps)


def test_a_plot_of_nothing_says_so_and_one_of_a_single_moment_has_a_dot() -> None:
    assert plots.lines(["a"], {"x": [None]}) == plots.NOTHING
    assert plots.stacked_bars(["a"], {"x": [0.0]}) == plots.NOTHING
    assert "<circle" in plots.lines(["a", "b"], {"x": [1.0, None]})
    assert "<polyline" in plots.lines(["a", "b"], {"x": [1.0, 2.0]})


def test_a_long_time_is_gathered_in_spans_and_a_pause_is_a_gap() -> None:
    spans = spans_of([window(at, messages=at) for at in (0, 1, 2, 5)], window_s=10)
    assert spans.greatest("messages") == [0, 1, 2, None, None, 5]
    week = spans_of([window(at, publish_rate=at % 2) for at in range(60_480)], window_s=10)
    assert 100 < len(week.labels) <= SPANS_MAX
    assert set(week.means("publish_rate")) == {0.5}


def test_no_age_is_not_an_age() -> None:
    found = Telemetry([window(0, messages=3, head_message_age_ms=-1)])
    assert spans_of(found.windows, 10).greatest("head_message_age_ms") == [None]
    assert "-0.001" not in report_of(found).page()


def test_episodes_are_windows_one_after_the_other_that_say_the_same() -> None:
    routing = [window(at, connections_in_flow=1) for at in (1, 2, 3, 8)]
    queue = [window(9, connections_in_flow=1, channels_in_flow=1)]
    found = Telemetry([window(0), *routing, *queue, window(10)]).episodes("n")
    assert [
        (one.bottleneck, (one.start_ms - START_MS, one.end_ms - START_MS)) for one in found
    ] == [
        (Bottleneck.ROUTING, (10_000, 40_000)),
        (Bottleneck.ROUTING, (80_000, 90_000)),
        (Bottleneck.QUEUE, (90_000, 100_000)),
    ]


def test_the_latest_word_on_a_window_is_kept_and_files_are_few(tmp_path: Path) -> None:
    files = PlainFiles(tmp_path)
    kept = WindowFiles(files)  # type: ignore[arg-type] # all that is asked of them
    for batch in range(3 * FILES_MAX):
        kept.keep(batch, [window(batch // 2, messages=batch)])
        kept.keep(batch, [window(batch // 2, messages=batch)])
    again = WindowFiles(files)  # type: ignore[arg-type]
    assert again.all() == kept.all()
    assert [w.figure("messages") for w in again.all()] == list(range(1, 3 * FILES_MAX, 2))
    assert len(files.names(FOLDER)) <= FILES_MAX


def test_the_oldest_windows_are_forgotten(tmp_path: Path) -> None:
    kept = WindowFiles(PlainFiles(tmp_path), windows_max=5)  # type: ignore[arg-type]
    for batch in range(20):
        kept.keep(batch, [window(batch)])
    assert [w.start_ms for w in kept.all()] == [window(at).start_ms for at in range(15, 20)]


def test_where_no_report_can_be_is_told_before_the_work(tmp_path: Path) -> None:
    check_writable(str(tmp_path / "new" / "report.html"))
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "report.html"):
        with pytest.raises(InvalidOption, match="option report"):
            check_writable(str(path))
    with pytest.raises(InvalidOption, match="cannot write"):
        Report("x").write(str(tmp_path / "missing" / "report.html"))
