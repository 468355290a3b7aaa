"""The wheel of pyspark-warren, and environments that have it and no broker."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PROJECT: Final = ROOT / "packages" / "pyspark-warren"
# What Spark brings with it, and what the package needs besides.
NEEDED: Final = ("numpy", "py4j", "pyarrow", "pyspark")


def build_wheel(directory: Path) -> Path:
    """Build the wheel as a user does, but with the setuptools that is here."""
    run_pip(
        "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory), str(PROJECT)
    )
    (wheel,) = directory.glob("*.whl")
    return wheel


def run_pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]


class Environment:
    """A virtual environment with what the package needs, borrowed from this one, and no broker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
        self.python = directory / "bin" / "python"
        (self._packages,) = directory.glob("lib/python*/site-packages")
        for name in NEEDED:
            spec = find_spec(name)
            assert spec is not None, name
            assert spec.origin is not None, name
            origin = Path(spec.origin).parent
            for path in (origin, origin.with_name(f"{name}.libs")):
                if path.exists():
                    (self._packages / path.name).symlink_to(path)

    def install(self, wheel: Path) -> None:
        run_pip("--python", str(self.python), "install", "--no-deps", "--no-index", str(wheel))

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run its Python, which knows nothing of this one."""
        kept = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
        return subprocess.run(
            [str(self.python), *arguments], capture_output=True, text=True, check=False,
            cwd=self.directory, env={**kept, **settings},
        )  # fmt: skip
