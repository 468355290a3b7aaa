"""What a real rabbitmqctl 3.10.8 answered, command by command, and what warrenctl answers.

The transcript was recorded, with node names replaced by NODE, without escape codes, and without the
usage that follows a wrong command line. Rows of a listing may come in any order, and where
rabbitmqctl prints an empty line for an empty listing, warrenctl need not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from acceptance.control import Control, Step, read_transcript
from acceptance.management_client import Api
from warren.cli.ctl.tools import tool_with

TRANSCRIPT: Final = Path(__file__).parent / "transcripts" / "rabbitmqctl.txt"
SECTIONS: Final = dict(read_transcript(TRANSCRIPT))


@pytest.fixture
def recorded_world(api: Api) -> Iterator[None]:
    """The vhost and the user that the commands are about."""
    yield
    api.delete("vhosts", "recorded")
    api.delete("users", "recorder")


@pytest.mark.usefixtures("recorded_world")
@pytest.mark.parametrize("title", SECTIONS)
def test_the_same_answers_as_rabbitmqctl(title: str, api: Api, control: Control) -> None:
    steps = SECTIONS[title]
    _prepare(steps, control)
    node = api.must(api.get("overview"))["node"]
    differences = [d for step in steps for d in _differences(step, node, control)]
    assert not differences, "\n".join(differences)


def _prepare(steps: list[Step], control: Control) -> None:
    """Sections are about a vhost and a user made in the first two."""
    lines = [step.line for step in steps]
    if "add_vhost recorded" not in lines:
        control.ok("add_vhost recorded")
    if not any(line.startswith("add_user recorder") for line in lines):
        control.ok("add_user recorder secret")


def _differences(step: Step, node: str, control: Control) -> Iterator[str]:
    tool = tool_with(step.line.split()[0])
    done = control.called(tool)(step.line.replace("NODE", node))
    expected_out = _comparable(step.line, [line.replace("NODE", node) for line in step.out])
    expected_err = _before_usage([line.replace("NODE", node) for line in step.err])
    out = _comparable(step.line, done.out.splitlines())
    err = _before_usage(done.err.splitlines())
    if (done.code, out, err) != (step.code, expected_out, expected_err):
        yield f"$ {step.line}"
        yield f"  expected {step.code} {expected_out} {expected_err}"
        yield f"  got      {done.code} {out} {err}"


def _comparable(command: str, lines: list[str]) -> list[str]:
    rows = [re.sub(r"^,(?=\{)", "", line) for line in lines]
    return sorted(filter(None, rows)) if command.startswith("list_") else rows


def _before_usage(lines: list[str]) -> list[str]:
    until = lines.index("Arguments given:") if "Arguments given:" in lines else len(lines)
    return lines[:until]
