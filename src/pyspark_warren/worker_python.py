"""Which Python Spark's workers run: the one that this package is installed for, and soon.

Spark puts a zip of pyspark, sources alone, first on the path of every process that it starts, so
that each compiles all of it anew: a second of work, three times as much as without it. Spark waits
ten seconds for some of them, which is not much on a machine that is busy. Where pyspark is
installed for that Python anyway, the zip is of no use. So workers on this machine get a `python`
of ours, a script, which leaves the zip out.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

import pyspark

from pyspark_warren.java import cache_directory, write_program


def use_this_python(*, is_local: bool = True) -> None:
    """Call before a session is made: sets PYSPARK_PYTHON, unless it is set.

    Parameters
    ----------
    is_local
        Whether workers run on this machine. Others have no script of ours, but perhaps a Python at
        the same place.
    """
    if "PYSPARK_PYTHON" in os.environ:
        return
    program = sys.executable
    if is_local and os.name == "posix":
        program = str(make_python(cache_directory()))
    os.environ["PYSPARK_PYTHON"] = program


def make_python(below: Path) -> Path:
    """A program that runs this Python without Spark's zips on its path."""
    zips = Path(pyspark.__file__).parent / "python" / "lib"
    script = _SCRIPT.format(zips=shlex.quote(str(zips)), python=shlex.quote(sys.executable))
    # Each environment has its own.
    name = sys.prefix.strip("/").replace("/", "-")
    return write_program(below / name / "python", script)


_SCRIPT: Final = """\
#!/bin/sh
kept=
IFS=:
for part in $PYTHONPATH; do
  case $part in
    {zips}/*) ;;
    *) kept=$kept${{kept:+:}}$part ;;
  esac
done
PYTHONPATH=$kept exec {python} "$@"
"""
