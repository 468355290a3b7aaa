"""The throughput of a synchronisation, as the configuration says it."""

from __future__ import annotations

import pytest

from warren.config.settings import Config
from warren.server.cluster_shell import sync_terms


@pytest.mark.parametrize(
    ("said", "bytes_per_s"),
    [("0", 0), ("100", 100), ("100MB", 100_000_000), ("100MiB", 104_857_600)],
)
def test_bytes_or_units(said: str, bytes_per_s: int) -> None:
    """5-10."""
    assert sync_terms(Config(sync_max_throughput=said)).bytes_per_s == bytes_per_s


def test_there_is_no_limit_unless_one_is_set() -> None:
    assert sync_terms(Config()).bytes_per_s == 0


def test_what_makes_no_sense_is_no_limit() -> None:
    assert sync_terms(Config(sync_max_throughput="quickly")).bytes_per_s == 0


def test_batches_and_blocking_are_as_configured() -> None:
    terms = sync_terms(Config(sync_batch_size=7, sync_is_blocking=True))
    assert (terms.batch_size, terms.is_blocking) == (7, True)
