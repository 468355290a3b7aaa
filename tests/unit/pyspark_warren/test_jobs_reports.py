"""Reports of jobs: axes, spans of time, windows that are kept, and what is said of a path."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyspark_warren.errors import InvalidOption
from pyspark_warren.jobs.audit_report import report_of as audit_report_of
from pyspark_warren.jobs.audited import Absent, Audited, Difference, NodeFigures
from pyspark_warren.jobs.diagnosis import Bottleneck
from pyspark_warren.jobs.plot_frame import NOTHING, scale_of
from pyspark_warren.jobs.plots import stacked_bars
from pyspark_warren.jobs.reports import Report, check_writable
from pyspark_warren.jobs.spans import SPANS_MAX, spans_of
from pyspark_warren.jobs.state_files import StateFiles
from pyspark_warren.jobs.telemetry_report import report_of
from pyspark_warren.jobs.time_plots import lines, stacked_areas, strips
from pyspark_warren.jobs.windows import FILES_MAX, FOLDER, Telemetry, Window, WindowFiles

START_MS = 1_800_000_000_000
MEANS = ("_rate", "_percent")


def window(number: int, **figures: float) -> Window:
    """One with these figures; rates and per cents are means, of one event."""
    means = {name: (value, 1) for name, value in figures.items() if name.endswith(MEANS)}
    greatest = {name: value for name, value in figures.items() if name not in means}
    return Window(START_MS + number * 10_000, "n", "", greatest, {}, means)


def kept_in(path: Path, windows_max: int = 1_000) -> WindowFiles:
    return WindowFiles(StateFiles(str(path)), "telemetry", 10, windows_max)


@pytest.mark.parametrize(
    ("greatest", "top", "steps"),
    [(0, 1, 1), (1, 1, 1), (3, 3, 3), (87, 100, 2), (100, 100, 2), (4_100, 6_000, 3)],
)
def test_an_axis_has_few_round_numbers(greatest: float, top: float, steps: int) -> None:
    scale = scale_of(greatest, least_step=1)
    assert (scale.top, scale.steps) == (top, steps)


def test_a_plot_of_nothing_says_so_and_one_of_a_single_moment_has_a_dot() -> None:
    assert lines(["a"], {"x": [None]}) == NOTHING
    assert stacked_bars(["a"], {"x": [0.0]}) == NOTHING
    assert stacked_areas(["a"], {"x": [None], "y": [0.0]}) == NOTHING
    assert strips(["a"], {"x": [""]}, ["held"]) == NOTHING
    assert "<circle" in lines(["a", "b"], {"x": [1.0, None]})
    assert "<polyline" in lines(["a", "b"], {"x": [1.0, 2.0]})


def test_lines_that_coincide_have_other_dashes_and_the_legend_says_so() -> None:
    drawn = lines(["a", "b"], {"x": [1.0, 2.0], "y": [1.0, 2.0], "z": [1.0, 3.0]})
    assert "y (same as x)" in drawn
    assert ">z</span>" in drawn
    assert len(set(re.findall(r'<polyline[^>]* fill="none" ([^/]*)/>', drawn))) == 3


def test_areas_lie_on_each_other_and_a_pause_is_a_gap() -> None:
    drawn = stacked_areas(["a", "b", "c"], {"x": [2.0, None, 1.0], "y": [2.0, None, None]})
    heights = [
        {float(point.partition(",")[2]) for point in points.split()}
        for points in re.findall(r'polygon points="([^"]+)"', drawn)
    ]
    scale = scale_of(4, least_step=1)
    assert heights == [
        {scale.y(0), scale.y(2)}, {scale.y(0), scale.y(1)},
        {scale.y(2), scale.y(4)}, {scale.y(1)},
    ]  # fmt: skip


def test_strips_are_coloured_from_the_first_moment_to_the_last() -> None:
    drawn = strips(["a", "b", "c", "d"], {"x": ["", "held", "held", ""]}, ["held"])
    (found,) = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)
    assert (float(found[0]), float(found[1])) == (64 + 199, 398)


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


def test_the_report_tells_records_of_streams_apart_from_messages_in_queues() -> None:
    figures = {"messages_ready": 1_005.0, "backlog": 5.0, "stream_records": 1_000.0}
    page = report_of(Telemetry([window(0, **figures), window(1, **figures)])).page()
    assert "Messages in queues, without streams" in page
    assert "Records in streams, which are no backlog" in page
    without = report_of(Telemetry([window(0, messages_ready=5, backlog=5)])).page()
    assert "Records in streams" not in without


def test_a_report_of_an_audit_has_what_differs_and_what_is_absent() -> None:
    difference = Difference("missing", "/", "<q>", "h", "id-1", {"a": 1, "b": 0})
    chunk = Difference("divergent", "/", "s", "h", None, {"a": 1, "b": 0}, 77, 99)
    absent = Absent("stream", "/", "gone", ("a",), ("b",))
    nodes = {"a": NodeFigures(1, 2, 1, 9, 0, 80, 100), "b": NodeFigures(1, 1)}
    page = audit_report_of(Audited(nodes, [difference, chunk], [absent], ["bad"], ["id-9"])).page()
    for shown in ("&lt;q&gt;", "id-1", "offsets 77 to 98", "gone", "bad", "id-9", "NOT the same"):
        assert shown in page
    assert page.count("<svg") == 2
    assert "The copies are the same." in audit_report_of(Audited(nodes)).page()


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


def test_windows_are_merged_kept_with_their_offset_and_files_are_few(tmp_path: Path) -> None:
    kept = kept_in(tmp_path)
    assert kept.next_offset is None
    for batch in range(3 * FILES_MAX):
        told = window(batch // 2, messages=batch, publish_rate=batch)
        kept.keep([told], next_offset=batch + 1)
    again = kept_in(tmp_path)
    assert again.all() == kept.all()
    assert (again.next_offset, again.batches) == (3 * FILES_MAX, 3 * FILES_MAX)
    assert [w.figure("messages") for w in again.all()] == list(range(1, 3 * FILES_MAX, 2))
    assert [w.figure("publish_rate") for w in again.all()][:2] == [0.5, 2.5]
    assert len(StateFiles(str(tmp_path)).names(FOLDER)) <= FILES_MAX


def test_the_oldest_windows_are_discarded(tmp_path: Path) -> None:
    kept = kept_in(tmp_path, windows_max=5)
    for batch in range(20):
        kept.keep([window(batch)], batch)
    assert [w.start_ms for w in kept.all()] == [window(at).start_ms for at in range(15, 20)]


def test_two_jobs_with_one_state_and_another_window_are_refused(tmp_path: Path) -> None:
    first, second = kept_in(tmp_path), kept_in(tmp_path)
    first.keep([window(0)], 5)
    with pytest.raises(InvalidOption, match="another job has written batch 0"):
        second.keep([window(0)], 7)
    with pytest.raises(InvalidOption, match="is of window_s 10, and not of 60"):
        WindowFiles(StateFiles(str(tmp_path)), "telemetry", 60)
    assert kept_in(tmp_path).next_offset == 5


def test_state_files_are_there_as_a_whole_wherever_they_are(tmp_path: Path) -> None:
    for root in (str(tmp_path / "plain"), (tmp_path / "by uri").as_uri()):
        files = StateFiles(root)
        assert files.names("folder") == []
        files.write("folder/b", "text")
        files.write("folder/a", "")
        assert files.names("folder") == ["a", "b"]
        assert files.read("folder/b") == "text"
        files.delete("folder/b")
        files.delete("folder/b")
        assert [files.exists(f"folder/{name}") for name in "ab"] == [True, False]
    with pytest.raises(InvalidOption, match="option state: nonsense://"):
        StateFiles("nonsense://here")


def test_where_no_report_can_be_is_told_before_the_work(tmp_path: Path) -> None:
    check_writable(str(tmp_path / "new" / "report.html"))
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "report.html"):
        with pytest.raises(InvalidOption, match="option report"):
            check_writable(str(path))
    with pytest.raises(InvalidOption, match="cannot write"):
        Report("x").write(str(tmp_path / "missing" / "report.html"))
