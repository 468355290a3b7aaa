"""Fuzz targets with mutations of the corpus: a short hunt in every run; `scripts/fuzz` is longer.

A failure prints the seed and the input; put the input into `corpus/TARGET/` when it is mended.
`WARREN_FUZZ_SECONDS` makes the hunt longer, `WARREN_FUZZ_SEED` begins it elsewhere.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from fuzz.mutations import mutated
from fuzz.seeds import corpus_of, seeds
from fuzz.targets import TARGETS

SECONDS = float(os.environ.get("WARREN_FUZZ_SECONDS", "2"))
FIRST_SEED = int(os.environ.get("WARREN_FUZZ_SEED", "1"))
INPUTS_MIN = 50


def test_every_target_has_seeds() -> None:
    assert set(seeds()) == set(TARGETS)
    assert all(seeds().values())


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_is_read_or_refused_as_promised(target: str) -> None:
    for data in corpus_of(target):
        TARGETS[target](data)


@pytest.mark.parametrize("target", TARGETS)
def test_mutations_are_read_or_refused_as_promised(target: str) -> None:
    corpus, tried = corpus_of(target), 0
    deadline = time.monotonic() + SECONDS
    while tried < INPUTS_MIN or time.monotonic() < deadline:
        seed = FIRST_SEED + tried
        data = mutated(random.Random(seed), corpus)
        try:
            TARGETS[target](data)
        except BaseException:
            print(f"target {target}, seed {seed}, input {data!r}")
            raise
        tried += 1
    print(f"{target}: {tried} inputs")
