"""The hunt: inputs of one fuzz target, guided by the coverage that they reach (atheris).

    python -m fuzz.hunt TARGET [options of libFuzzer]

`scripts/fuzz` runs it for all targets, with release builds and with sanitizers. What is found is
written beside the corpus, as libFuzzer does: crash-..., timeout-..., oom-...
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["warren"]):
    from fuzz.seeds import corpus_of
    from fuzz.targets import TARGETS


def main() -> None:
    name, *options = sys.argv[1:]
    target = TARGETS[name]
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as directory:
        for number, data in enumerate(corpus_of(name)):
            (Path(directory) / f"seed-{number}").write_bytes(data)
        folders = [option for option in options if not option.startswith("-")] or [directory]
        if directory not in folders:
            folders.append(directory)
        flags = [option for option in options if option.startswith("-")]
        atheris.Setup([sys.argv[0], *flags, *folders], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
