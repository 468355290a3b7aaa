"""scripts/chaos --ingest [--mirrored] [--s3] | --replay [--faults 20] [--seed 1]"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from pipeline_chaos.chaos import Chaos
from pipeline_chaos.faults import FaultyRun
from pipeline_chaos.mirrored import MirroredChaos
from pipeline_chaos.replaying import ReplayChaos
from pipeline_chaos.side_process import stopped_by_signal


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("--job", choices=("ingest", "replay"), default="ingest")
    parser.add_argument("--mirrored", action="store_true", help="an ingest from three nodes")
    parser.add_argument("--s3", action="store_true", help="an ingest into an object store")
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if (given.mirrored or given.s3) and given.job != "ingest":
        parser.error("--mirrored and --s3 go with --ingest")
    chooser = random.Random(given.seed)
    print(f"seed {given.seed}", flush=True)
    started = time.monotonic()
    # SIGTERM: no more faults, and then the check.
    stopping = stopped_by_signal()
    with tempfile.TemporaryDirectory(prefix=f"warren-{given.job}-chaos-") as directory:
        run = run_of(given, Path(directory))
        try:
            run.begin()
            for number in range(given.faults):
                if stopping.is_set():
                    break
                # Each kind comes once before any comes again.
                faults = run.faults
                fault = faults[number] if number < len(faults) else chooser.choice(faults)
                run.harm(fault)
                took = time.monotonic() - started
                print(f"fault {number + 1}: {fault}, at {run.progress()}, {took:.0f} s", flush=True)
            arrived = run.check()
        finally:
            run.end()
    confirmed = len(run.publisher.confirmed)
    took = time.monotonic() - started
    if isinstance(run, Chaos):
        print(f"reads without a wrong count or an error: {run.readers.did}")
        print(f"meanwhile, in runs that were not killed: {run.upkeep.did}")
    print(f"{run.counts}: {confirmed} confirmed, {arrived} arrived, each once; {took:.0f} s")


def run_of(given: argparse.Namespace, directory: Path) -> FaultyRun:
    if given.job == "replay":
        return ReplayChaos(directory, given.seed)
    kind = MirroredChaos if given.mirrored else Chaos
    return kind(directory, given.seed, on_store=given.s3)


if __name__ == "__main__":
    main()
