"""`warrenctl` as tests call it, and transcripts of what rabbitmqctl answered."""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from acceptance.management_client import Api
from warren.cli.ctl.program import run
from warren.cli.ctl.tools import Tool


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.out.splitlines()]


@dataclass(frozen=True)
class Control:
    """`control("list_queues -p v")`; `ok` is for what must not fail."""

    url: str
    tool: str = "warrenctl"

    def called(self, tool: str) -> Control:
        """The same program, called by the name of a tool of RabbitMQ's."""
        return Control(self.url, tool)

    def __call__(self, line: str, *words: str) -> Done:
        out, err = io.StringIO(), io.StringIO()
        Tool.called_as(self.tool)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(["--url", self.url, *shlex.split(line), *words])
        finally:
            Tool.called_as("warrenctl")
        return Done(code, out.getvalue(), err.getvalue())

    def ok(self, line: str, *words: str) -> Done:
        done = self(line, *words)
        assert (done.code, done.err) == (0, ""), done
        return done


@pytest.fixture(scope="session")
def control(api: Api) -> Control:
    return Control(f"http://{api.address.host}:{api.address.port}")


@dataclass
class Step:
    """A command, and what rabbitmqctl answered: `>` to stdout, `!` to stderr, `=` its exit code."""

    line: str
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    code: int = 0


def read_transcript(path: Path) -> Iterator[tuple[str, list[Step]]]:
    """Its sections, each with a title and steps that belong together."""
    for section in path.read_text().split("\n# "):
        title, _, rest = section.removeprefix("# ").partition("\n")
        steps: list[Step] = []
        for line in rest.splitlines():
            kind, text = line[:1], line[2:]
            match kind:
                case "$":
                    steps.append(Step(text))
                case ">":
                    steps[-1].out.append(text)
                case "!":
                    steps[-1].err.append(text)
                case "=":
                    steps[-1].code = int(text)
        yield title, steps


__all__ = ["Control", "Done", "Step", "control", "read_transcript"]
