"""Marks of a copy that comes back: what happens where they are trusted."""

from __future__ import annotations

import pytest

from cluster_simulation.breaks import trust_old_marks
from cluster_simulation.master_changes import rolling_restarts
from gm_invariants import Violation


def test_a_copy_that_comes_back_and_leads_again_delivers_nothing_old_as_new() -> None:
    """What it had not delivered itself it once delivered as new, though others had meanwhile."""
    with trust_old_marks(), pytest.raises(Violation, match="comes as new after"):
        rolling_restarts(1)
    assert rolling_restarts(1).witness.promotions > 1
