"""pytest's fixtures: whoever has Warren installed has them, without an import (docs/TESTING.md).

pytest imports this at every start, also of those who do not use it; so it imports next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from warren.testing.in_process import InProcessBroker, running_broker


@pytest.fixture
def warren_broker() -> Iterator[InProcessBroker]:
    """A broker for this test alone, empty at its start."""
    with running_broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def warren_session_broker() -> Iterator[InProcessBroker]:
    """One broker for all tests of a run: what a test leaves there is there for the next."""
    with running_broker() as broker:
        yield broker
