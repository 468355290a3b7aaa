"""How fast a synchronisation may be, as the configuration says it."""

from __future__ import annotations

import pytest

from warren.config.settings import Config
from warren.server.mirroring.synchronising import throughput_of


@pytest.mark.parametrize(
    ("said", "bytes_per_s"),
    [("0", 0), ("100", 100), ("100MB", 100_000_000), ("100MiB", 104_857_600)],
)
def test_bytes_or_units(said: str, bytes_per_s: int) -> None:
    """5-10."""
    assert throughput_of(Config(sync_max_throughput=said)) == bytes_per_s


def test_there_is_no_limit_unless_one_is_set() -> None:
    assert throughput_of(Config()) == 0


def test_what_makes_no_sense_is_no_limit() -> None:
    assert throughput_of(Config(sync_max_throughput="quickly")) == 0
