"""Packages are locked with hashes, the lock keeps to pyproject.toml, and the SBOM to the lock."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest
from bench.sbom import LOCKS, STATIC, bill, locked
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parent.parent.parent
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SBOM: Final = ROOT / "requirements" / "sbom.json"
AGAIN: Final = "run scripts/lock"


def wanted(extra: str) -> list[Requirement]:
    """What an extra asks for, with the extras of ours that it names."""
    found = [Requirement(text) for text in PROJECT["optional-dependencies"][extra]]
    ours = [each for each in found if each.name == PROJECT["name"]]
    others = [each for each in found if each.name != PROJECT["name"]]
    return others + [deeper for each in ours for name in each.extras for deeper in wanted(name)]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_the_lock_has_a_version_of_everything_that_is_wanted(path: Path) -> None:
    versions = {canonicalize_name(found.name): found.version for found in locked(path)}
    base = [Requirement(text) for text in PROJECT["dependencies"]]
    for requirement in [*base, *wanted(path.stem)]:
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not locked: {AGAIN}"
        assert version in requirement.specifier, f"{requirement}, locked: {version}: {AGAIN}"


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_every_package_has_hashes_and_no_address(path: Path) -> None:
    text = path.read_text()
    packages = re.split(r"(?m)^(?=\S+==)", text)[1:]
    assert len(packages) == len(list(locked(path)))
    assert [each.split()[0] for each in packages if "--hash=sha256:" not in each] == []
    assert re.search(r"https?:|file:|--index|--find-links| @ ", text) is None


def test_the_bill_of_materials_is_that_of_the_lock() -> None:
    def components(document: dict[str, list[dict[str, str]]]) -> list[str]:
        return [each["bom-ref"] for each in document["components"]]

    kept = json.loads(SBOM.read_text())
    assert components(kept) == components(bill()), AGAIN
    assert kept["bomFormat"] == "CycloneDX"


def test_what_is_vendored_has_its_version_and_licence_beside_it() -> None:
    folder = STATIC / "vendor"
    scripts = sorted(path.name for path in folder.glob("*.js"))
    vendored = [each for each in bill()["components"] if each["purl"].startswith("pkg:npm/")]
    assert len(vendored) == len(scripts), "a file without a version in its name"
    for each in vendored:
        assert (folder / f"{each['name']}.LICENSE").exists()
        assert f"{each['name']} {each['version']}" in (ROOT / "SECURITY.md").read_text()
