"""scripts/chaos --ingest [--faults 20] [--seed 1]"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from pipeline_chaos.chaos import FAULTS, Chaos
from pipeline_chaos.ingesting import numbers_in


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/chaos --ingest", description=__doc__)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chooser = random.Random(given.seed)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="warren-ingest-chaos-") as directory:
        chaos = Chaos(Path(directory), given.seed)
        try:
            chaos.begin()
            for number in range(given.faults):
                # Each kind comes once before any comes again.
                fault = FAULTS[number] if number < len(FAULTS) else chooser.choice(FAULTS)
                chaos.harm(fault)
                batches = chaos.ingest.commits()
                print(f"fault {number + 1}: {fault}, after {batches} batches", flush=True)
            chaos.check()
        finally:
            chaos.end()
        rows = sum(numbers_in(chaos.ingest.lake).values())
    confirmed = len(chaos.publisher.confirmed)
    took = time.monotonic() - started
    print(f"{chaos.counts}: {confirmed} confirmed, {rows} in the lake, each once; {took:.0f} s")


if __name__ == "__main__":
    main()
