"""export_definitions and import_definitions."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from warren.cli.ctl.call import Call, where_in_json
from warren.cli.ctl.formatting import Answer, json_text
from warren.cli.ctl.verbs import Argument, Exit, Family, Kind, Option, Verb, WrongUsage, error

STANDARD: Final = "-"
IMPORTED: Final = "Successfully imported the definitions"


def export_definitions(call: Call) -> Answer:
    _only_json(call)
    place = call.arguments[0]
    if place == STANDARD:
        return json_text(call.api.get("definitions"))
    path = Path(place).expanduser()
    if not path.parent.is_dir():
        raise WrongUsage(f"Bad argument: Directory {path.parent} does not exist", Exit.DATA)
    call.announce(f'Exporting definitions in JSON to a file at "{place}" ...')
    definitions = json_text(call.api.get("definitions"))
    try:
        path.write_text(definitions)
    except OSError as fault:
        raise error(f"cannot write {place}: {fault.strerror}", Exit.DATA) from fault
    return None


def import_definitions(call: Call) -> Answer:
    _only_json(call)
    place = call.argument(0) or STANDARD
    if place == STANDARD:
        call.announce("Importing definitions in JSON from standard input ...")
        text = sys.stdin.read()
    else:
        path = Path(place).expanduser()
        if not path.is_file():
            raise WrongUsage(f"Bad argument: File {place} does not exist", Exit.DATA)
        call.announce(f'Importing definitions in JSON from a file at "{place}" ...')
        text = path.read_text()
    try:
        definitions = json.loads(text)
    except ValueError as fault:
        problem = f"Failed to deserialise input (format: JSON) (error: {fault})"
        raise error(problem, Exit.DATA, hint=where_in_json(fault)) from fault
    call.api.post("definitions", body=definitions)
    return IMPORTED


def _only_json(call: Call) -> None:
    if (call.text("format") or "json").lower() != "json":
        raise WrongUsage("Warren's definitions are JSON: Erlang's own format is not supported")


_FORMAT: Final = Option("format", "json", Kind.TEXT)

VERBS: Final = (
    Verb(
        name="export_definitions",
        family=Family.DEFINITIONS,
        summary="Exports definitions in JSON",
        run=export_definitions,
        arguments=(Argument("file_path", 'where to; "-" is standard output'),),
        options=(_FORMAT,),
    ),
    Verb(
        name="import_definitions",
        family=Family.DEFINITIONS,
        summary="Imports definitions in JSON, such as RabbitMQ 3.8 to 3.13 exports",
        run=import_definitions,
        arguments=(
            Argument("file_path", 'where from; "-" or nothing is standard input', is_optional=True),
        ),
        options=(
            _FORMAT,
            Option("skip-if-unchanged", "accepted for rabbitmqctl's sake, without effect"),
        ),
    ),
)
