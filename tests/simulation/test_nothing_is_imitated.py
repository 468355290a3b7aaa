"""The simulator of clusters plays what is outside a node, and imitates nothing that is inside."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cluster_simulation import process
from warren.cluster.node import ClusterNode
from warren.server.cluster_shell import ClusterShell
from warren.server.links import Links
from warren.server.session_keeper import SessionKeeper

ROOT: Final = Path(__file__).parent.parent.parent
SIMULATOR: Final = ROOT / "tests" / "cluster_simulation"
DECIDING: Final = ("cluster", "mirror", "server", "policy")
DECISIONS: Final = {"handle", "plan", "promote", "expel", "hand_over", "reclaim", "wanted_copies"}
"""Names of functions that decide about copies: the simulator asks for these things, by events."""


def classes_in(folder: Path) -> Iterator[ast.ClassDef]:
    for path in sorted(folder.rglob("*.py")):
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.ClassDef):
                yield each


def test_no_class_of_the_simulator_has_the_name_of_one_that_decides() -> None:
    real = {c.name for each in DECIDING for c in classes_in(ROOT / "src" / "warren" / each)}
    played = {each.name for each in classes_in(SIMULATOR)}
    assert played & real == set()


def test_nothing_in_the_simulator_decides_about_copies() -> None:
    functions = {
        each.name
        for path in sorted(SIMULATOR.glob("*.py"))
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert functions & DECISIONS == set()


def test_a_process_is_made_of_what_a_node_is_made_of() -> None:
    assert issubclass(process.WatchedShell, ClusterShell)
    assert "handle" not in vars(process.WatchedShell)
    for real in (Links, SessionKeeper):
        assert vars(process)[real.__name__] is real
    assert process.Process.machine.fget.__annotations__["return"] == ClusterNode.__name__
