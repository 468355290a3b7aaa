"""Lines of batches: rows, rate and lag, and a job that goes on when nobody says what its lag is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from socket import create_server

import pytest

from pyspark_warren.jobs import batch_lines
from pyspark_warren.jobs.batch_lines import Batch, Lag, batch_of, lag_of, shown_age, shown_bytes
from pyspark_warren.jobs.watching import Watch
from pyspark_warren.options import parse_source_options


def test_a_line_has_the_batch_its_rate_and_the_lag() -> None:
    batch = Batch(12, 20_000, 3.1, Lag(1_200, 1_400_000, 4_000), detail="3 in quarantine")
    assert str(batch) == (
        "batch 12: 20,000 messages in 3.1 s, 6,452/s, 3 in quarantine; "
        "1,200 behind (1.4 MB), the oldest 4 s old"
    )
    assert str(Batch(0, 5, 0.0, Lag(0, 0), "windows")) == (
        "batch 0: 5 windows in 0.0 s, 5,000/s; nothing behind"
    )
    assert str(Batch(1, 1, 1.0, Lag(7))).endswith("; 7 behind")
    assert str(Batch(1, 1, 1.0)) == "batch 1: 1 messages in 1.0 s, 1/s"


def test_ages_and_sizes_are_in_units_that_fit() -> None:
    assert [shown_age(s * 1000) for s in (0, 59, 60, 7_200, 200_000)] == [
        "0 s", "59 s", "1 min", "2 h", "2 d",
    ]  # fmt: skip
    assert [shown_bytes(size) for size in (7, 1_500, 2_000_000, 3e9)] == [
        "7 bytes", "1.5 kB", "2 MB", "3 GB",
    ]  # fmt: skip


def test_a_watch_says_one_line_for_each_batch() -> None:
    class Heard(Watch):
        lines: list[str] = []  # noqa: RUF012 - one watch, one test

        def say(self, text: str) -> None:
            self.lines.append(text)

    heard = Heard()
    heard.batch(Batch(3, 10, 1.0))
    assert heard.lines == ["batch 3: 10 messages in 1.0 s, 10/s"]


def test_a_batch_of_a_query_has_the_offsets_where_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Mapping[str, int]] = []
    monkeypatch.setattr(batch_lines, "lag_of", lambda _, ends: asked.append(ends) or Lag(3))
    progress = {
        "batchId": 4, "numInputRows": 10, "durationMs": {"triggerExecution": 2_000},
        "sources": [{"endOffset": '{"q": 7, "": {"q": {}}}'}, {"endOffset": {"r": 9}}],
    }  # fmt: skip
    source = parse_source_options({"url": "http://a", "queue": "q"})
    assert str(batch_of(progress, source)) == "batch 4: 10 messages in 2.0 s, 5/s; 3 behind"
    assert asked == [{"q": 7, "r": 9}]


def test_a_broker_that_does_not_answer_costs_the_lag_and_not_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_lines, "LAG_WITHIN_S", 0.3)
    with closing(create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    source = parse_source_options({"url": f"http://127.0.0.1:{port}", "queue": "q"})
    before = time.monotonic()
    assert lag_of(source, {"q": 0}) is None
    assert time.monotonic() - before < 30
