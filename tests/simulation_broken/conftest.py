"""Protocols that are broken on purpose, to see that simulations find it out.

Methods of compiled classes cannot be replaced, so these run from the plain sources: scripts/test
does that, and `WARREN_PURE=1 scripts/test tests/simulation_broken` by hand.
"""

from __future__ import annotations

import pytest

from warren._pure import PURE


def pytest_runtest_setup() -> None:
    if not PURE:
        pytest.fail("rules are taken away from plain sources only: run with WARREN_PURE=1")
