"""`warren perf` on the command line: options, and combinations that make no sense."""

from __future__ import annotations

from dataclasses import fields

import pytest
import typer
from typer.testing import CliRunner

from warren.model.fields import Field
from warren.perf.command import perf
from warren.perf.options import Options, numbered, share
from warren.perf.topology import queue_arguments

app = typer.Typer()
app.command()(perf)


def test_every_option_is_on_the_command_line_with_its_help() -> None:
    shown = CliRunner().invoke(app, ["--help"], terminal_width=200, env={"COLUMNS": "200"}).output
    missing = [f.name for f in fields(Options) if f"--{f.name.replace('_', '-')}" not in shown]
    assert missing == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--backlog", "5", "--autoack"], "acknowledgements"),
        (["--backlog", "5", "--drain"], "both producers and consumers"),
        (["--publish-only", "--drain"], "nothing to do"),
        (["--frame-max", "100"], "4096"),
        (["--queues", "0"], "start at 1"),
        (["--queue-arg", "x-max-length"], "NAME=VALUE"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    arguments: list[str], complaint: str
) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 64
    assert complaint in result.output


def test_workers_share_queues_so_that_all_are_used() -> None:
    assert [share(worker, 2, 5) for worker in range(2)] == [[0, 2, 4], [1, 3]]
    assert [share(worker, 3, 2) for worker in range(3)] == [[0], [1], [0]]


def test_only_the_first_placeholder_of_a_key_counts() -> None:
    assert numbered("k.%d.%d", 7) == "k.7.%d"
    assert numbered("plain", 7) == "plain"


def test_a_consumer_prefers_its_own_address_and_falls_back_to_the_others() -> None:
    options = Options(port=1, consumer_port=2, endpoints="127.0.0.1:1,other:3")
    assert options.addresses(for_consumer=False) == [
        ("127.0.0.1", 1),
        ("127.0.0.1", 2),
        ("other", 3),
    ]
    assert options.addresses(for_consumer=True)[0] == ("127.0.0.1", 2)


def test_queue_arguments_get_the_type_they_look_like() -> None:
    table = queue_arguments(["x-max-length=10", "x-single-active-consumer=true", "x-mode=lazy"])
    assert list(table) == [
        ("x-max-length", Field("l", 10)),
        ("x-single-active-consumer", Field("t", True)),
        ("x-mode", Field("S", b"lazy")),
    ]
