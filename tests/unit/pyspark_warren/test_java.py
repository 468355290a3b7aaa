"""Which Java Spark is given, by programs that say they are one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pyspark_warren import java
from pyspark_warren.java import JavaMissing, ensure_java, make_home


def pretend(home: Path, version: str) -> Path:
    """A `java` that says its version, and otherwise its arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\nif [ "$1" = -version ]; then\n'
        f"echo 'openjdk version \"{version}\"' >&2\nelse\nprintf '<%s>' \"$@\"\nfi\n"
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Set first, so that what the test makes of it is undone even where there was none.
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Programs that stand for Java need a shell, and nothing else of a path.
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(java, "_java_of_pip", lambda: None)


@pytest.mark.usefixtures("no_java")
def test_a_recent_java_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "own"
    pretend(home, "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(home))
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(home)


@pytest.mark.usefixtures("no_java")
def test_one_on_the_path_is_taken_if_java_home_is_too_old(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "old"
    pretend(home, "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(home))
    recent = pretend(tmp_path / "recent", "17.0.15")
    monkeypatch.setenv("PATH", str(recent.parent))
    ensure_java()
    assert "JAVA_HOME" not in os.environ


@pytest.mark.usefixtures("no_java")
def test_without_any_it_is_said_what_to_do() -> None:
    with pytest.raises(JavaMissing, match=r"Java 17 or later.*pip install 'warren\[jre\]'"):
        ensure_java()


@pytest.mark.usefixtures("no_java")
def test_that_of_pip_is_run_without_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed = pretend(tmp_path / "it's here", "21.0.8")
    monkeypatch.setattr(java, "_java_of_pip", lambda: installed)
    ensure_java()
    shim = Path(os.environ["JAVA_HOME"], "bin", "java")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a class", ""]
    said = subprocess.run([shim, *arguments], capture_output=True, text=True, check=True)
    assert said.stdout == "<-Xmx1g><a class><>"


def test_a_home_that_is_there_stays(tmp_path: Path) -> None:
    installed = pretend(tmp_path / "installed", "21.0.8")
    first = make_home(installed, tmp_path)
    made = (first / "bin" / "java").stat().st_ino
    assert make_home(installed, tmp_path) == first
    assert (first / "bin" / "java").stat().st_ino == made
