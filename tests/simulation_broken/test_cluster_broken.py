"""The simulation of clusters is worth something only if it finds a protocol that is broken."""

from __future__ import annotations

import pytest

from cluster_simulation.breaks import BREAKS
from cluster_simulation.command import main

SEEDS_MAX = 200
# Where to look, and from which seed on: not every life comes to where the rule is needed.
WHERE = {
    "skip-the-fence": ("multicast", 200),
    "skip-the-lease": ("random", 11),
    "confirm-before-the-last-mirror": ("random", 0),
    "drop-an-alias": ("random", 2),
    "promote-an-unsynced-mirror": ("random", 301),
    "forget-a-requeue": ("random", 0),
    "trust-old-marks": ("rolling-restarts", 1),
    "stay-behind-a-cut": ("partial-pause-minority", 0),
    "stay-on-a-full-disk": ("full-disk-of-the-leader", 0),
    "decide-before-the-topology": ("random", 2),
    "tell-the-end-of-sessions-late": ("ignore", 0),
    "overlook-a-link": ("random", 0),
    "overlook-what-a-mirror-has": ("random", 0),
    "promote-without-the-fence": ("random", 19),
    "forget-a-relocation": ("moving-masters", 0),
    "place-by-a-stale-policy": ("moving-policies", 0),
    "count-publishes-anew": ("random", 0),
    "delete-kept-copies": ("random", 1),
    "confirm-before-mirrors-are-known": ("moving-masters", 0),
}


@pytest.mark.parametrize("breakage", BREAKS)
def test_a_broken_protocol_is_found_out(breakage: str, capsys: pytest.CaptureFixture[str]) -> None:
    scenario, seed = WHERE[breakage]
    options = ["--scenario", scenario, "--break", breakage]
    assert main(["--seed", str(seed), "--runs", str(SEEDS_MAX), *options]) == 1
    said = capsys.readouterr().out
    assert "seed" in said
    assert f"--break {breakage}" in said


def test_a_sound_protocol_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "1", "--runs", "2"]) == 0
    assert "2 runs from seed 1: nothing violated" in capsys.readouterr().out
