"""WARREN_PURE=1 runs the sources, whatever was compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

PACKAGE = Path(__file__).parent.parent.parent / "src" / "warren"
TWO_SIDED = sorted(
    ".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts)
    for p in PACKAGE.rglob("*.pxd")
    if p.with_suffix(".py").exists() and p.with_suffix(EXTENSION_SUFFIXES[0]).exists()
)


def files_of(modules: list[str], pure: str) -> list[str]:
    program = (
        "import sys, importlib\nfor m in sys.argv[1:]: print(importlib.import_module(m).__file__)"
    )
    environment = {**os.environ, "WARREN_PURE": pure}
    command = [sys.executable, "-c", program, *modules]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_switch_finds_the_source_of_every_compiled_module() -> None:
    assert [f for f in files_of(TWO_SIDED, "1") if not f.endswith(".py")] == []


def test_without_the_switch_compiled_modules_are_used() -> None:
    assert [f for f in files_of(TWO_SIDED, "") if f.endswith(".py")] == []


def test_the_switch_chooses_the_plain_kernel() -> None:
    program = "from warren.wire.codec import BACKEND; print(BACKEND)"
    environment = {**os.environ, "WARREN_PURE": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "pure"
