"""The Python of Spark's workers: this one, without the zips that Spark puts on its path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from pyspark_warren.worker_python import make_python, use_this_python

ZIPS = Path(pyspark.__file__).parent / "python" / "lib"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (f"{ZIPS}/pyspark.zip:{ZIPS}/py4j-src.zip:/a b/c:/d", "/a b/c:/d"),
        (f"/a:{ZIPS}/pyspark.zip:/elsewhere/pyspark.zip", "/a:/elsewhere/pyspark.zip"),
        (f"{ZIPS}/pyspark.zip", ""),
        ("", ""),
    ],
)
def test_only_the_zips_are_left_out(tmp_path: Path, given: str, kept: str) -> None:
    program = make_python(tmp_path)
    code = "import os, sys; print(os.environ['PYTHONPATH'], sys.prefix, sys.argv[1:], sep='|')"
    said = subprocess.run(
        [program, "-c", code, "an argument", ""],
        env={**os.environ, "PYTHONPATH": given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == f"{kept}|{sys.prefix}|['an argument', '']\n"


def test_a_python_that_somebody_chose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "theirs")
    use_this_python()
    assert os.environ["PYSPARK_PYTHON"] == "theirs"


def test_workers_elsewhere_are_told_the_python_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for is_local, expected in ((False, sys.executable), (True, None)):
        monkeypatch.setenv("PYSPARK_PYTHON", "")
        monkeypatch.delenv("PYSPARK_PYTHON")
        use_this_python(is_local=is_local)
        chosen = os.environ["PYSPARK_PYTHON"]
        assert chosen == expected or (expected is None and Path(chosen).is_relative_to(tmp_path))
