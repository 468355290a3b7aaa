"""`warren perf` on the command line. What it does is imported when it runs, not before."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, Final, get_type_hints

import typer

from warren.perf.options import Options

EXIT_USAGE: Final = 64


def perf(**values: Any) -> None:
    """Put load on a broker, and report rates, latencies and whatever was lost or came twice.

    Works with any AMQP 0-9-1 broker.
    """
    options = Options(**values)
    complaint = complain_about(options)
    if complaint:
        typer.echo(f"warren perf: {complaint}", err=True)
        raise typer.Exit(EXIT_USAGE)
    from warren.perf.program import execute

    raise typer.Exit(execute(options))


def complain_about(options: Options) -> str:
    """Return what is wrong with a combination of options, or an empty text."""
    if options.backlog and options.autoack:
        return "--backlog needs acknowledgements: leave out --autoack"
    if options.backlog and (options.publish_only or options.drain):
        return "--backlog needs both producers and consumers"
    if options.publish_only and options.drain:
        return "--publish-only and --drain leave nothing to do"
    if options.frame_max < 4096:
        return "--frame-max cannot be below 4096"
    if min(options.producers, options.consumers, options.queues) < 1:
        return "--producers, --consumers and --queues start at 1"
    if any("=" not in argument for argument in options.queue_arg):
        return "--queue-arg is NAME=VALUE"
    return ""


def _take_signature_of_options(command: Callable[..., None]) -> None:
    """Typer reads a function's parameters; ours are the fields of `Options`."""
    hints = get_type_hints(Options, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=[] if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(Options)
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}


_take_signature_of_options(perf)
