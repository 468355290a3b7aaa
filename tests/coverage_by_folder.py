"""Coverage of lines by folder of src/warren: `scripts/coverage [--missing FOLDER]`.

`scripts/test` leaves what its parts have measured in build/coverage. Folders that decide about
clusters have a floor, below which this fails.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from coverage import Coverage

ROOT: Final = Path(__file__).parent.parent
SOURCES: Final = ROOT / "src" / "warren"
MEASURED: Final = ROOT / "build" / "coverage"
FLOORS_PERCENT: Final = {"cluster": 90.0, "replication": 90.0}
"""By folder; one that does not exist (any more, or yet) has none."""


class Lines(NamedTuple):
    """How many lines there are that could be run, and how many were."""

    total: int = 0
    run: int = 0

    @property
    def percent(self) -> float:
        return 100.0 * self.run / self.total if self.total else 100.0

    def plus(self, total: int, missing: int) -> Lines:
        return Lines(self.total + total, self.run + total - missing)


class Measured(NamedTuple):
    path: str
    """Below src/warren."""
    total: int
    missing: list[int]

    @property
    def folder(self) -> str:
        return self.path.partition("/")[0] if "/" in self.path else ""


def by_folder(files: Iterable[Measured]) -> dict[str, Lines]:
    folders: dict[str, Lines] = {}
    for file in files:
        found = folders.get(file.folder, Lines())
        folders[file.folder] = found.plus(file.total, len(file.missing))
    return dict(sorted(folders.items()))


def below_floor(folders: dict[str, Lines]) -> list[str]:
    """Say of each folder whose coverage is too low what is wanted."""
    return [
        f"{folder}: {folders[folder].percent:.1f} % of lines are run, at least {floor:.0f} % must"
        for folder, floor in FLOORS_PERCENT.items()
        if folder in folders and folders[folder].percent < floor
    ]


def table(folders: dict[str, Lines]) -> str:
    rows = [
        f"{folder or '(top)':14} {lines.run:6} of {lines.total:6} lines  {lines.percent:5.1f} %"
        + (f"  (floor {FLOORS_PERCENT[folder]:.0f} %)" if folder in FLOORS_PERCENT else "")
        for folder, lines in folders.items()
    ]
    return "\n".join(rows)


def read(data_files: list[str]) -> list[Measured]:
    """Combine what the parts measured, and look at every module, run or not."""
    coverage = Coverage(config_file=str(ROOT / "pyproject.toml"))
    coverage.combine(data_files, keep=True)
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        _, statements, _, missing, _ = coverage.analysis2(str(path))
        found.append(Measured(path.relative_to(SOURCES).as_posix(), len(statements), missing))
    return found


def runs_of(numbers: list[int]) -> str:
    """Lines as ranges: 3-5, 9."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/coverage", description=__doc__)
    parser.add_argument("--missing", metavar="FOLDER", help="also name its lines that are not run")
    wanted = parser.parse_args(arguments).missing
    data_files = [str(path) for path in sorted(MEASURED.glob("part.*"))]
    if not data_files:
        print("scripts/coverage: nothing measured yet; run scripts/test first", file=sys.stderr)
        return 1
    files = read(data_files)
    for file in files:
        if file.missing and file.folder == wanted:
            print(f"{file.path}: {runs_of(file.missing)}")
    folders = by_folder(files)
    print(f"coverage of lines by unit tests and contracts:\n{table(folders)}")
    problems = below_floor(folders)
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
