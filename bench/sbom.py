"""The bill of materials (SBOM): every package that is locked, and what is vendored, as CycloneDX.

It is made of the lock files alone, so it says the same wherever it is made; only the licences are
taken from the packages that are installed here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

import warren

ROOT: Final = Path(__file__).parent.parent
LOCKS: Final = (ROOT / "requirements" / "test.txt", ROOT / "requirements" / "jre.txt")
STATIC: Final = ROOT / "src" / "warren" / "management" / "page" / "static"
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)")
_VENDORED: Final = re.compile(r"^([A-Za-z]+)(?:-ext)?-(\d[\d.]*\d)(?:\.min|\.iife)*\.js$")
VENDORED_LICENCES: Final = {"htmx": "0BSD", "idiomorph": "0BSD", "uPlot": "MIT"}


class Locked(NamedTuple):
    name: str
    version: str


def locked(path: Path) -> Iterator[Locked]:
    """Yield the packages of a lock file."""
    for line in path.read_text().splitlines():
        pin = _PIN.match(line)
        if pin is not None:
            yield Locked(pin[1], pin[2])


def licence_of(name: str) -> str:
    """Return the licence that an installed package states; nothing if it is not installed."""
    try:
        stated = metadata(name)
    except PackageNotFoundError:
        return ""
    if "License-Expression" in stated:
        return str(stated["License-Expression"])
    prefix = "License :: "
    classifiers = [c for c in stated.get_all("Classifier") or [] if c.startswith(prefix)]
    if classifiers:
        return " AND ".join(sorted(c.rpartition(" :: ")[2] for c in classifiers))
    text = str(stated["License"]) if "License" in stated else ""
    return text.splitlines()[0][:100] if text.strip() else ""


def package(found: Locked) -> dict[str, Any]:
    purl = f"pkg:pypi/{found.name.lower()}@{found.version}"
    shown: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": found.name,
        "version": found.version,
        "purl": purl,
    }
    licence = licence_of(found.name)
    return {**shown, "licenses": [{"license": {"name": licence}}]} if licence else shown


def vendored() -> list[dict[str, Any]]:
    """Return the libraries of the management page, which are in this repository."""
    rows = []
    for path in sorted(STATIC.rglob("*.js")):
        match = _VENDORED.match(path.name)
        if match is None:
            continue
        name, version = match[1], match[2]
        purl = f"pkg:npm/{name.lower()}@{version}"
        licence = VENDORED_LICENCES[name]
        rows.append(
            {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": version,
                "purl": purl,
                "licenses": [{"license": {"id": licence}}],
            }
        )
    return rows


def bill() -> dict[str, Any]:
    rows = [package(found) for path in LOCKS for found in locked(path)]
    unique = {row["bom-ref"]: row for row in rows}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "warren",
                "version": warren.__version__,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [*sorted(unique.values(), key=lambda row: row["bom-ref"]), *vendored()],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(bill(), indent=1) + "\n")
