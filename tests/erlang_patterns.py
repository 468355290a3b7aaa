"""Erlang's answers about patterns, kept as a table: which it takes, and which names they match.

RabbitMQ 3.10.8 matches with `re` of Erlang/OTP 25. `python tests/erlang_patterns.py` asks the
Erlang that is installed, and writes the table anew: after adding to PATTERNS or NAMES.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

TABLE: Final = Path(__file__).parent / "unit" / "model" / "erlang_patterns.json"

_PROGRAM: Final = r"""#!/usr/bin/env escript
main([File]) ->
    {ok, Text} = file:read_file(File),
    [First | Rest] = string:split(string:trim(Text, trailing), "\n", all),
    Names = [octets(N) || N <- string:split(First, " ", all)],
    [io:format("~s~n", [answer(octets(P), Names)]) || P <- Rest].
octets(Hex) -> << <<(binary_to_integer(<<H, L>>, 16))>> || <<H, L>> <= Hex >>.
answer(Pattern, Names) ->
    case re:compile(Pattern) of
        {error, {Reason, At}} -> io_lib:format("refused ~b ~s", [At, Reason]);
        {ok, Compiled} -> ["taken ", [is_match(Name, Compiled) || Name <- Names]]
    end.
is_match(Name, Compiled) ->
    case re:run(Name, Compiled, [{capture, none}]) of match -> $1; nomatch -> $0 end.
"""


def has_erlang() -> bool:
    return shutil.which("escript") is not None


def ask_erlang(patterns: list[str], names: list[str]) -> list[str]:
    """Return `refused POSITION REASON` or `taken 0110...` (a digit for each name) per pattern."""
    with tempfile.TemporaryDirectory() as directory:
        program, questions = Path(directory, "ask.escript"), Path(directory, "questions")
        program.write_text(_PROGRAM)
        lines = [" ".join(name.encode().hex() for name in names)]
        lines += [pattern.encode().hex() for pattern in patterns]
        questions.write_text("\n".join(lines) + "\n")
        command = ["escript", str(program), str(questions)]
        found = subprocess.run(command, capture_output=True, check=True, timeout=120)
    return found.stdout.decode().splitlines()


def read_table() -> tuple[list[str], dict[str, str]]:
    """Return the names, and Erlang's answer by pattern."""
    table = json.loads(TABLE.read_text())
    return table["names"], dict(table["patterns"])


def write_table(patterns: list[str], names: list[str]) -> None:
    rows = list(zip(patterns, ask_erlang(patterns, names), strict=True))
    lines = ",\n".join(json.dumps(row) for row in rows)
    TABLE.write_text(f'{{"names": {json.dumps(names)},\n"patterns": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    names, answers = read_table()
    write_table(sys.argv[1:] + [each for each in answers if each not in sys.argv[1:]], names)
