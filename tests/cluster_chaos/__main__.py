"""The command: scripts/chaos [--mirrored] --minutes 10 [--seed 1] [--round 30] [--keep DIR]"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from cluster_chaos.chaos import Chaos
from cluster_chaos.harms import HARMS
from cluster_chaos.mirrored import MirroredChaos
from cluster_chaos.network import enter_own_network

CANNOT_RUN: Final = 77
SLOW: Final = "forgive errors while a session was lost though nothing was done to its node"
LATE: Final = "with --mirrored: consumers always leave some deliveries open"
STEADY: Final = "with --mirrored: one queue under a steady load, with a backlog"
ONLY: Final = f"with --mirrored: these, in this order, of {', '.join(HARMS)}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description="Hurt a cluster at random.")
    parser.add_argument("--minutes", type=float, default=10.0, help="for about how long")
    parser.add_argument("--mirrored", action="store_true", help="with mirrored queues")
    parser.add_argument("--late", action="store_true", help=LATE)
    parser.add_argument("--steady", action="store_true", help=STEADY)
    parser.add_argument("--only", default="", help=ONLY)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--round", type=float, default=40.0, help="seconds of harm per round")
    parser.add_argument("--rounds", type=int, default=1_000, help="at most so many")
    parser.add_argument("--slow", action="store_true", help=SLOW)
    parser.add_argument("--keep", type=Path, help="where to work, and to leave everything")
    options = parser.parse_args()
    options.only = [kind for kind in options.only.split(",") if kind]
    if set(options.only) - HARMS.keys():
        parser.error(f"--only takes some of {', '.join(HARMS)}")
    return options


def make_chaos(directory: Path, options: argparse.Namespace) -> Chaos:
    if not options.mirrored:
        return Chaos(directory, options.seed)
    chaos = MirroredChaos(directory, options.seed, options.only)
    chaos.is_late = options.late
    chaos.is_steady = options.steady
    return chaos


def main() -> int:
    options = parse()
    reason = enter_own_network("cluster_chaos")
    if reason is not None:
        print(f"CANNOT RUN: no namespaces here: {reason}", file=sys.stderr)
        return CANNOT_RUN
    directory = options.keep or Path(tempfile.mkdtemp(prefix="chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    chaos = make_chaos(directory, options)
    chaos.is_slow_machine = options.slow
    try:
        chaos.run(options.minutes * 60, options.round, options.rounds)
    except AssertionError as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    print(chaos.summary())
    if not options.keep:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
