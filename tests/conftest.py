"""What every suite shares: which build is under test, and a guard against testing a stale one."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from warren._pure import PURE

# A slow machine is not a fault, and a run shows the same as the one before. To look for what no run
# has found yet: pytest --hypothesis-profile=explore.
settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=1_000
)
settings.load_profile("suite")

PACKAGE = Path(__file__).parent.parent / "src" / "warren"


def stale_modules() -> list[str]:
    """Compiled modules older than a source they were made from."""
    stale = []
    for source in [*PACKAGE.rglob("*.pyx"), *PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pxd")]:
        compiled = source.with_suffix(EXTENSION_SUFFIXES[0])
        if compiled.exists() and compiled.stat().st_mtime < source.stat().st_mtime:
            stale.append(str(source.relative_to(PACKAGE.parent)))
    for part in PACKAGE.rglob("*.pxi"):
        for kernel in part.parent.glob("*.pyx"):
            if f'include "{part.name}"' not in kernel.read_text():
                continue
            compiled = kernel.with_suffix(EXTENSION_SUFFIXES[0])
            if compiled.exists() and compiled.stat().st_mtime < part.stat().st_mtime:
                stale.append(str(part.relative_to(PACKAGE.parent)))
    return sorted(stale)


def pytest_report_header() -> str:
    return f"warren: {'plain sources' if PURE else 'compiled where built'}"


def pytest_sessionstart() -> None:
    stale = [] if PURE else stale_modules()
    if stale:
        pytest.exit(f"changed since they were compiled, run scripts/setup: {stale}", returncode=3)
