"""`warrenctl`: rabbitmqctl's verbs, spoken to a node's management API.

| file | what it holds |
|---|---|
| `verbs.py` | what a verb is: arguments, options, what it does; exit codes and errors |
| `parsing.py` | a command line becomes a `Call` of a verb |
| `program.py` | runs it: answers to stdout, errors to stderr, the exit code |
| `api.py` | HTTP, what its errors mean, and whether a node can be asked at all |
| `tools.py` | the names of RabbitMQ's tools, for links |
| `formatting.py`, `terms.py` | table, pretty_table, csv, json, erlang |
| `listing.py` | what all `list_*` verbs have in common: columns |
| `help.py`, `completion.py` | for people and their shells |
| all others | one family of verbs each |

Everything slow to import (HTTP, Rich) is imported when it is needed: a script may call `warrenctl`
a thousand times.
"""

from __future__ import annotations

import sys


def main() -> None:
    from warren.cli.ctl.program import run
    from warren.cli.ctl.tools import Tool

    Tool.called_as(sys.argv[0])
    sys.exit(run(sys.argv[1:]))
