"""Log lines: one per event, whatever the facts contain."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from warren.model.logs import (
    EventLog,
    JsonFormatter,
    configure_logs,
    console_output,
    render_fact,
    set_log_level,
)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    written = io.StringIO()
    configure_logs("info", {"channel": "error"}, written)
    yield written
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("warren"):
            logging.getLogger(name).setLevel(logging.NOTSET)


def test_a_line_has_time_level_event_and_facts(stream: io.StringIO) -> None:
    EventLog("connection").info("connection opened", peer="127.0.0.1:5", user="guest", vhost="/")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \[info\] "
        r"connection opened peer=127\.0\.0\.1:5 user=guest vhost=/\n",
        stream.getvalue(),
    )


def test_below_the_level_nothing_is_written(stream: io.StringIO) -> None:
    EventLog("connection").debug("too detailed")
    EventLog("channel").warning("quieter category")
    EventLog("channel").error("channel error")
    assert [line.split("] ")[1] for line in stream.getvalue().splitlines()] == ["channel error"]


def test_a_client_cannot_forge_a_line(stream: io.StringIO) -> None:
    EventLog("connection").info("connection closed", name="x\n2026-01-01 [info] all is well")
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (42, "42"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "x"', '"say \\"x\\""'),
        ("tab\there", '"tab\\there"'),
        ("Füße", "Füße"),
        ("\udcff", '"\\udcff"'),
    ],
)
def test_values_that_would_confuse_are_quoted(value: object, text: str) -> None:
    assert render_fact(value) == text


def test_a_very_long_value_is_cut() -> None:
    assert len(render_fact("x" * 100_000)) < 1_100


def test_an_error_of_ours_comes_with_its_traceback(stream: io.StringIO) -> None:
    try:
        raise RuntimeError("a bug")
    except RuntimeError as error:
        EventLog("broker").exception("internal error", error, connection=7)
    written = stream.getvalue()
    assert "[error] internal error connection=7\n" in written
    assert "RuntimeError: a bug" in written


def test_lines_as_json_have_the_facts_under_their_names(stream: io.StringIO) -> None:
    output = console_output(stream)
    output.setFormatter(JsonFormatter())
    configure_logs("info", outputs=[output])
    EventLog("queue").warning("queue is long", queue="a b", messages=3, level="high", note="x\ny")
    (line,) = stream.getvalue().splitlines()
    found = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", found.pop("time"))
    assert found == {
        "level": "warning", "msg": "queue is long", "domain": "queue",
        "queue": "a b", "messages": 3, "level_": "high", "note": "x\ny",
    }  # fmt: skip


def test_an_error_as_json_has_its_traceback_in_the_same_line(stream: io.StringIO) -> None:
    output = console_output(stream)
    output.setFormatter(JsonFormatter())
    configure_logs("info", outputs=[output])
    EventLog("node").exception("task failed", ValueError("why"))
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["traceback"].endswith("ValueError: why")


def test_outputs_have_levels_of_their_own_until_all_are_set(stream: io.StringIO) -> None:
    loud, quiet = console_output(stream), console_output(stream)
    quiet.setLevel(logging.ERROR)
    configure_logs("info", outputs=[loud, quiet])
    EventLog("node").info("first")
    set_log_level("debug")
    EventLog("node").debug("second")
    assert [line.split("] ")[1] for line in stream.getvalue().splitlines()] == [
        "first", "second", "second",
    ]  # fmt: skip
