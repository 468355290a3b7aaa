"""The wheel of pyspark-warren, and environments that have it and no broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
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

    def __init__(self, directory: Path, borrowed: Sequence[str] = NEEDED) -> None:
        self.directory = directory
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
        self.python = directory / "bin" / "python"
        (self._packages,) = directory.glob("lib/python*/site-packages")
        for name in borrowed:
            spec = find_spec(name)
            assert spec is not None, name
            assert spec.origin is not None, name
            origin = Path(spec.origin).parent
            for path in (origin, origin.with_name(f"{name}.libs")):
                link = self._packages / path.name
                if path.exists() and not link.is_symlink():
                    link.symlink_to(path)

    @property
    def spark_home(self) -> Path:
        return self._packages / "pyspark"

    def install_once(self, *requirements: str) -> None:
        """Packages from an index, unless they are there from an earlier run of the tests."""
        done = self.directory / "installed"
        if not done.exists():
            run_pip("--python", str(self.python), "install", *requirements)
            done.write_text("\n".join(requirements))

    def install(self, wheel: Path) -> None:
        here = ("--python", str(self.python))
        run_pip(*here, "install", "--no-deps", "--no-index", "--force-reinstall", str(wheel))

    def variables(self, **settings: str) -> dict[str, str]:
        """Variables for its programs, which then know nothing of this environment."""
        kept = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
        return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", **settings}

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run its Python."""
        return subprocess.run(
            [str(self.python), *arguments], capture_output=True, text=True, check=False,
            cwd=self.directory, env=self.variables(**settings),
        )  # fmt: skip


def cached_environment(name: str, *requirements: str, borrowed: Sequence[str]) -> Environment:
    """An environment that is kept for the next run of the tests, since Spark is 400 MB."""
    directory = ROOT / "build" / "environments" / name
    directory.mkdir(parents=True, exist_ok=True)
    environment = Environment(directory, borrowed)
    environment.install_once(*requirements)
    return environment
