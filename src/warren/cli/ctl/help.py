"""What `warrenctl help` says, and which verb a mistyped one may have been."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Final

from warren.cli.ctl.parsing import GENERAL_OPTIONS
from warren.cli.ctl.tools import Tool
from warren.cli.ctl.verbs import Family, Kind, Verb

NAME_WIDTH: Final = 40
SIMILARITY_MIN: Final = 0.7


def bold(text: str) -> str:
    """For people at a terminal only: nobody greps for escape codes."""
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        return f"\x1b[1m{text}\x1b[0m"
    return text


def usage(verb: Verb) -> str:
    return f"{bold('Usage')}\n\n{Tool.name} [--url <url>] [--quiet] {verb.usage}\n"


def of_verb(verb: Verb) -> str:
    parts = [f"\n{usage(verb)}", f"{verb.summary.rstrip('.')}.\n"]
    if verb.notes:
        parts.append(f"{verb.notes}\n")
    described = [(f"<{a.name}>", a.help) for a in verb.arguments]
    if verb.columns:
        described[-1:] = [("<column>", f"must be one of {', '.join(sorted(verb.columns))}")]
    described += [(option.usage, option.help) for option in verb.options]
    if described:
        parts.append(f"\n{bold('Arguments and Options')}\n")
        parts += [f"{name}\n\t{text}\n" for name, text in described]
    parts.append(f"\n{bold('General Options')}\n")
    parts.append("\n".join(_general_options()))
    return "\n".join(parts)


def _general_options() -> Iterator[str]:
    for option in GENERAL_OPTIONS:
        short = f"-{option.short}, " if option.short else "    "
        name = f"--{option.name}"
        if option.kind is not Kind.FLAG:
            name += f" <{option.metavar or option.name}>"
        yield f"{short}{name:<26} {option.help}"


def of_everything(verbs: Mapping[str, Verb]) -> str:
    parts = [
        f"{bold('Usage')}\n",
        f"{Tool.name} [--url <url>] [--timeout <timeout>] [--quiet] <command> [options]\n",
        "Available commands:\n",
    ]
    for family in Family:
        members = sorted(v.name for v in verbs.values() if v.family is family and Tool.has(v.name))
        if members:
            parts.append(f"{bold(family.value)}:\n")
            parts += [f"   {name:<{NAME_WIDTH}}{verbs[name].summary}" for name in members]
            parts.append("")
    parts.append(f"Use '{Tool.name} help <command>' to learn more about a specific command")
    return "\n".join(parts)


def suggest(word: str, verbs: Mapping[str, Verb]) -> str | None:
    from difflib import get_close_matches

    near = get_close_matches(word, verbs, n=1, cutoff=SIMILARITY_MIN)
    return near[0] if near else None
