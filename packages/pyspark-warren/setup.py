"""Builds `pyspark-warren`: pyspark_warren, and those modules of the broker that it uses.

There is one source, `src/`. There, pyspark_warren imports what it shares with the broker (frames,
tables, chunks, files) from `warren`. A machine of Spark has no broker, so the wheel has a copy of
these modules as `pyspark_warren._warren`, as plain Python, and imports that say so. Which modules
these are is found by following imports, so nothing has to be listed, or can be forgotten.
"""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

SOURCES: Final = Path(__file__).resolve().parents[2] / "src"
PACKAGE: Final = "pyspark_warren"
SHARED: Final = "warren"
COPIED_TO: Final = f"{PACKAGE}._warren"
# What is compiled in the broker, and has a twin in numpy here: the plain one is far too slow.
REPLACED: Final = {"warren.storage.disk.checksum": f"{PACKAGE}.checksum"}
DATA: Final = ("py.typed", "jobs/log4j2.properties")
HEADER: Final = '"""Modules of the broker that this package uses, copied when it was built."""\n'
_IMPORT: Final = re.compile(rf"^(\s*(?:from|import)\s+){SHARED}(?=[\s.])", re.MULTILINE)


def source_of(module: str) -> Path | None:
    """Return the file of a module, or of a package."""
    path = SOURCES.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.exists():
            return file
    return None


def imported(module: str) -> Iterator[str]:
    """Yield the modules of ours that a module imports when it runs, and their packages."""
    path = source_of(module)
    assert path is not None, module
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
                waiting += node.orelse
                continue
            waiting.append(node)
            if isinstance(node, ast.ImportFrom) and node.module:
                yield from _existing(node.module)
                for alias in node.names:
                    yield from _existing(f"{node.module}.{alias.name}")
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    assert not alias.name.startswith(f"{SHARED}."), f"{path}: use from ... import"


def _existing(module: str) -> Iterator[str]:
    if not module.startswith((f"{SHARED}.", f"{PACKAGE}.")) or module in REPLACED:
        return
    if source_of(module) is not None:
        parts = module.split(".")
        yield from (".".join(parts[:end]) for end in range(2, len(parts) + 1))


def shared_modules() -> list[str]:
    """Return the broker's modules that this package uses, and those that they use."""
    found: set[str] = set()
    waiting = [
        ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        for path in (SOURCES / PACKAGE).rglob("*.py")
    ]
    while waiting:
        for module in imported(waiting.pop().removesuffix(".__init__")):
            if module.startswith(f"{SHARED}.") and module not in found:
                found.add(module)
                waiting.append(module)
    return sorted(found)


def moved(text: str) -> str:
    """Return the source with the imports that it has in the wheel."""
    for module, twin in REPLACED.items():
        text = text.replace(f"from {module} import", f"from {twin} import")
    return _IMPORT.sub(rf"\g<1>{COPIED_TO}", text)


def write_package(target: Path) -> None:
    """Write the whole package below a directory."""
    for path in sorted((SOURCES / PACKAGE).rglob("*.py")):
        _write(target / path.relative_to(SOURCES), moved(path.read_text()))
    for name in DATA:
        (target / PACKAGE / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SOURCES / PACKAGE / name, target / PACKAGE / name)
    copied = target.joinpath(*COPIED_TO.split("."))
    _write(copied / "__init__.py", HEADER)
    for module in shared_modules():
        path = source_of(module)
        assert path is not None, module
        _write(copied / path.relative_to(SOURCES / SHARED), moved(path.read_text()))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def version() -> str:
    found = re.search(
        r'^__version__ = "(.+)"$', (SOURCES / SHARED / "__init__.py").read_text(), re.M
    )
    assert found is not None, "the broker has a version"
    return found[1]


class BuildPackage(build_py):
    def run(self) -> None:
        target = Path(self.build_lib)
        shutil.rmtree(target / PACKAGE, ignore_errors=True)  # modules that are used no more
        write_package(target)


class NoSourceDistribution(sdist):
    def run(self) -> None:
        raise SystemExit("the sources are the whole repository: build a wheel")


if __name__ == "__main__":
    setup(
        version=version(),
        packages=[PACKAGE],
        package_dir={PACKAGE: str(Path("..", "..", "src", PACKAGE))},
        cmdclass={"build_py": BuildPackage, "sdist": NoSourceDistribution},
        options={
            "build": {"build_base": "../../build/pyspark-warren"},
            "egg_info": {"egg_base": "../../build"},
        },
    )
