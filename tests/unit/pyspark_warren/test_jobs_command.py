"""`warren pipeline` on the command line, as far as it goes without Spark."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from pyspark_warren.jobs.command import JOBS, app
from pyspark_warren.jobs.plots import bars_across, stacked_bars
from pyspark_warren.jobs.queries import reason_of
from pyspark_warren.jobs.reports import Report
from pyspark_warren.jobs.time_plots import lines

WIDE = {"COLUMNS": "200", "TERM": "dumb"}


@pytest.mark.parametrize("name", [job.name for job in JOBS])
def test_every_job_says_what_it_takes(name: str) -> None:
    shown = CliRunner().invoke(app, [name, "--help"], env=WIDE)
    assert shown.exit_code == 0
    assert "--master" in shown.output


def test_the_six_jobs_are_there() -> None:
    names = {"ingest", "convert", "replay", "deadletters", "audit", "telemetry"}
    assert {job.name for job in JOBS} == names


def test_what_is_missing_or_wrong_is_said_before_spark_starts() -> None:
    missing = CliRunner().invoke(app, ["ingest", "--url", "http://localhost"], env=WIDE)
    assert missing.exit_code == 2
    assert "--lake" in missing.output
    url = ["--url", "http://localhost"]
    for words, said in {
        ("audit", "--nodes", "a=/data", "--conf", "nonsense"): "--conf nonsense: is not KEY=VALUE",
        (
            "audit",
            "--nodes",
            "a=/data",
            "--master",
            "me",
        ): "option master: 'me' is none of local[N]",
        ("audit", "--nodes", "a=/data"): "option nodes: /data is not a data directory",
        ("ingest", *url, "--queue", "q", "--lake", "l", "--format", "json"): "schema: is missing",
        ("ingest", *url, "--lake", "l"): "option queue: name 1 to",
        ("ingest", *url, "--queue", "q", "--lake", "s3://b/l"): "option checkpoint: name a path",
        ("ingest", *url, "--queue", "q", "--lake", "s3://k:s@b/l"): "option lake: a URL with",
        (
            "ingest",
            *url,
            "--queue",
            "q",
            "--lake",
            "l",
            "--table-format",
            "parquet",
            "--z-order",
            "offset",
        ): "option z_order: plain Parquet files",
        ("convert", "--lake", "ftp://host/l"): "option lake: ftp:// is none of",
        ("deadletters", *url, "--queue", "q", "--redrive"): "option url",
        ("deadletters", *url, "--queue", "q", "--report", "/"): "option report",
        ("telemetry", *url, "--state", "s", "--report", "/"): "option report",
    }.items():
        wrong = CliRunner().invoke(app, list(words), env=WIDE)
        assert wrong.exit_code == 64, words
        assert said in wrong.output


def test_an_error_is_told_in_the_words_of_whoever_raised_it() -> None:
    text = (
        "[STREAM_FAILED] Query terminated: Traceback (most recent call last):\n"
        '  File "source.py", line 1, in schema\n'
        "pyspark_warren.errors.QueueMissing: there is no 'q'\n SQLSTATE: 38000"
    )
    assert reason_of(Exception(text)) == "there is no 'q'"


def test_a_report_is_one_file_and_shows_what_is_in_it_as_text() -> None:
    report = Report("A <title>")
    report.plot("lines", lines(["a", "b", "c"], {"<s>": [1.0, None, 3.0]}))
    report.plot("bars", stacked_bars(["a"], {"x": [2.0], "y": [3.0]}))
    report.plot("across", bars_across({"<name>": 5.0}))
    report.table(["n"], [[1_000], [None], ["<b>"]])
    page = report.page()
    assert "A &lt;title&gt;" in page
    assert "&lt;name&gt;" in page
    assert "&lt;b&gt;</td>" in page
    assert "1,000" in page
    assert "http" not in page.replace("http-equiv", "")
