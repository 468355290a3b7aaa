"""Parameters of a job on the command line: help, bounds, environment variables.

A job's options are a frozen dataclass, whose fields are annotated with `Parameter`. A call of the
job needs no more. `command` makes of it what typer wants, so that jobs can be imported where there
is no typer, as on a cluster of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """Words of typer's own options, of the same meaning."""

    help: str | None = None
    flag: str | None = None
    """Name on the command line, if it is not that of the field; a switch without a --no-."""
    metavar: str | None = None
    envvar: str | None = None
    min: float | None = None
    show_default: str | bool = True
