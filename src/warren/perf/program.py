"""Program of `warren perf`: runs the load, shows its progress, prints the report."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import uvloop
from rich.console import Console
from rich.live import Live
from rich.text import Text

from warren.client.errors import ConnectionLost
from warren.perf.idle import hold_connections
from warren.perf.options import Options
from warren.perf.report import report, show
from warren.perf.runner import Run, run_load

EXIT_FAILED: Final = 1
EXIT_TIMED_OUT: Final = 2
REFRESHES_PER_SECOND: Final = 5

ResultT = TypeVar("ResultT")


def execute(options: Options) -> int:
    """The exit code."""
    try:
        if options.idle_conns:
            found = _run(hold_connections(options))
            _print(found, options)
            return EXIT_FAILED if found["failed"] else 0
        run = _with_progress(options)
    except ConnectionLost as lost:
        failure = {"published": 0, "consumed": 0, "errors": [str(lost)], "close_code": lost.code}
        _print(failure, options)
        return EXIT_FAILED
    _print(report(run), options)
    return _exit_code(run)


def _exit_code(run: Run) -> int:
    if run.has_timed_out:
        return EXIT_TIMED_OUT
    has_errors = run.load.errors and not run.load.options.reconnect
    return EXIT_FAILED if run.load.has_failed or has_errors else 0


def _run(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def _with_progress(options: Options) -> Run:
    console = Console(stderr=True)
    if not console.is_terminal:
        return _run(run_load(options, lambda _: None))
    line = Live(Text("connecting"), console=console, transient=True, auto_refresh=False)
    with line:
        return _run(run_load(options, Progress(line)))


class Progress:
    """A line that tells how it goes, while it goes."""

    def __init__(self, line: Live) -> None:
        self._line = line
        self._seen = (0.0, 0, 0)

    def __call__(self, run: Run) -> None:
        then, published, consumed = self._seen
        now = run.elapsed
        if now - then < 1 / REFRESHES_PER_SECOND:
            return
        self._seen = (now, run.published, run.consumed)
        publish_rate = (run.published - published) / (now - then)
        consume_rate = (run.consumed - consumed) / (now - then)
        self._line.update(
            Text(
                f"{now:5.1f} s   published {run.published:,} ({publish_rate:,.0f}/s)   "
                f"consumed {run.consumed:,} ({consume_rate:,.0f}/s)"
                + (f"   errors {len(run.load.errors)}" if run.load.errors else "")
            ),
            refresh=True,
        )


def _print(found: dict[str, Any], options: Options) -> None:
    if options.json:
        sys.stdout.write(json.dumps(found) + "\n")
    elif found.get("errors") and not found.get("published") and not found.get("consumed"):
        # Nothing was measured, so figures would only hide why.
        for reason in dict.fromkeys(found["errors"]):
            print(f"Error: {reason}", file=sys.stderr)
    else:
        show(found, Console())
