"""scripts/chaos --ingest [--mirrored] | --replay [--faults 20] [--seed 1]"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path
from typing import Final

from pipeline_chaos.chaos import Chaos
from pipeline_chaos.faults import FaultyRun
from pipeline_chaos.mirrored import MirroredChaos
from pipeline_chaos.replaying import ReplayChaos

RUNS: Final[dict[str, type[FaultyRun]]] = {"ingest": Chaos, "replay": ReplayChaos}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("--job", choices=RUNS, default="ingest")
    parser.add_argument("--mirrored", action="store_true", help="an ingest from three nodes")
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.mirrored and given.job != "ingest":
        parser.error("--mirrored goes with --ingest")
    chooser = random.Random(given.seed)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"warren-{given.job}-chaos-") as directory:
        kind = MirroredChaos if given.mirrored else RUNS[given.job]
        run = kind(Path(directory), given.seed)
        try:
            run.begin()
            for number in range(given.faults):
                # Each kind comes once before any comes again.
                faults = run.faults
                fault = faults[number] if number < len(faults) else chooser.choice(faults)
                run.harm(fault)
                print(f"fault {number + 1}: {fault}, at {run.progress()}", flush=True)
            arrived = run.check()
        finally:
            run.end()
    confirmed = len(run.publisher.confirmed)
    took = time.monotonic() - started
    print(f"{run.counts}: {confirmed} confirmed, {arrived} arrived, each once; {took:.0f} s")


if __name__ == "__main__":
    main()
