"""The hunt: inputs of one fuzz target, guided by the coverage that they reach (atheris).

    python -m fuzz.hunt TARGET CORPUS [options of libFuzzer]

`scripts/fuzz` runs it for all targets, with sanitizers and with release builds. CORPUS is a folder
that keeps every input which reached something new; the next hunt goes on from there. An input that
fails is written where -artifact_prefix says: crash-..., timeout-..., oom-...

The compiled modules of a release build report no coverage, so libFuzzer finds none of their inputs
interesting and would mutate a single one for ever. Therefore half of all inputs are mutations of
the whole corpus, which the build with sanitizers, whose modules do report coverage, has found.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Final

import atheris

with atheris.instrument_imports(include=["warren"]):
    from fuzz.mutations import mutated
    from fuzz.seeds import corpus_of
    from fuzz.targets import TARGETS

CORPUS_FILES_MAX: Final = 5_000


def main() -> None:
    name, folder, *options = sys.argv[1:]
    corpus = _filled(Path(folder), corpus_of(name))

    def mutate(data: bytes, size_max: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < 0.5:
            return mutated(chance, corpus)[:size_max]
        changed: bytes = atheris.Mutate(data, size_max)
        return changed

    atheris.Setup([sys.argv[0], *options, folder], TARGETS[name], custom_mutator=mutate)
    atheris.Fuzz()


def _filled(folder: Path, seeds: list[bytes]) -> list[bytes]:
    """Return the seeds and what earlier hunts kept, and put the seeds into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds):
        (folder / f"seed-{number}").write_bytes(data)
    kept = sorted(folder.iterdir())[:CORPUS_FILES_MAX]
    return [path.read_bytes() for path in kept]


if __name__ == "__main__":
    main()
