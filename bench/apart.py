"""Runs a function in a process of its own: it shares no interpreter lock with whoever waits."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast

ANSWER_S_MAX: Final = 120.0

_P = ParamSpec("_P")
_T = TypeVar("_T")
_processes: Final = multiprocessing.get_context("spawn")


class Apart(Generic[_T]):
    """`function` gets one end of a pipe first; what it returns comes through the pipe, too."""

    def __init__(
        self,
        function: Callable[Concatenate[Connection, _P], _T],
        *arguments: _P.args,
        **options: _P.kwargs,
    ) -> None:
        self.pipe, theirs = _processes.Pipe()
        self._process = _processes.Process(
            target=_run, args=(theirs, function, arguments, options), daemon=True
        )
        self._process.start()
        theirs.close()

    def result(self, within_s: float = ANSWER_S_MAX) -> _T:
        """Raises TimeoutError, or EOFError if the function failed; either way the process ends."""
        try:
            if not self.pipe.poll(within_s):
                raise TimeoutError(f"no result within {within_s:g} s")
            return cast("_T", self.pipe.recv())
        finally:
            self.end()

    def end(self) -> None:
        self._process.terminate()
        self._process.join()


def _run(pipe: Connection, function: Callable[..., Any], arguments: Any, options: Any) -> None:
    pipe.send(function(pipe, *arguments, **options))
