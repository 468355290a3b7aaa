"""1-22: groups live through whatever can happen to them, and I1 to I13 hold throughout.

A failure names its seed; `python tests/gm_scenario.py SEED COUNT` runs that one, or many.
"""

from __future__ import annotations

import pytest

from gm_scenario import Scenario

RUNS = 200
CHUNKS = 4


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_1_22_random_lives_of_groups_break_no_invariant(chunk: int) -> None:
    confirms = 0
    for seed in range(chunk, RUNS, CHUNKS):
        confirms += Scenario(seed).run().witness.confirms
    assert confirms > RUNS
