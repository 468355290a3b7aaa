"""`scripts/simulate`: lives many simulated lives and stops at the first that breaks a promise."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing.synchronize import Event
from typing import Final

from cluster_simulation.breaks import BREAKS
from cluster_simulation.scenarios import SCENARIOS
from cluster_simulation.summary import Summary
from gm_invariants import Violation

CHUNK: Final = 10
PROGRESS_S: Final = 5.0

Result = tuple[int, Summary | str]
"""A seed, and how it went, or what was violated."""


class Worker:
    """What a process knows that lives lives for another: when nobody wants to hear of them."""

    is_over: Event | None = None

    @classmethod
    def begin(cls, is_over: Event) -> None:
        cls.is_over = is_over
        threading.Thread(target=cls._end_with_parent, daemon=True).start()

    @staticmethod
    def _end_with_parent() -> None:
        """It may be killed, and then it tells nobody."""
        parent = multiprocessing.parent_process()
        assert parent is not None, "somebody has started this process"
        parent.join()
        os._exit(1)


def live_through(seeds: range, scenario: str, breakage: str) -> list[Result]:
    results: list[Result] = []
    with ExitStack() as stack:
        if breakage:
            stack.enter_context(BREAKS[breakage]())
        for seed in seeds:
            if Worker.is_over is not None and Worker.is_over.is_set():
                break
            try:
                results.append((seed, SCENARIOS[scenario](seed)))
            except Violation as violation:
                return [*results, (seed, str(violation))]
    return results


def main(arguments: list[str] | None = None) -> int:
    options = make_parser().parse_args(arguments)
    seeds = range(options.seed, options.seed + options.runs)
    started = time.monotonic()
    total = Summary()
    shown = started
    for seed, result in explore(seeds, options):
        if isinstance(result, str):
            print(f"\n{result}\n\nAfter {total.runs} good runs. Again, this one alone:")
            print(f"    {again(seed, options)}")
            return 1
        total += result
        if time.monotonic() - shown > PROGRESS_S:
            shown = time.monotonic()
            print(f"{total.runs} of {options.runs} runs, {shown - started:.0f} s", flush=True)
    print(f"{total.runs} runs from seed {options.seed}: nothing violated")
    print(f"{total}, in {time.monotonic() - started:.0f} s")
    return 0


def again(seed: int, options: argparse.Namespace) -> str:
    more = f" --scenario {options.scenario}" if options.scenario != "random" else ""
    more += f" --break {options.breakage}" if options.breakage else ""
    return f"scripts/simulate --seed {seed} --runs 1{more}"


def explore(seeds: range, options: argparse.Namespace) -> Iterator[Result]:
    """In the order of the seeds, whatever the number of processes, so that each finds the same."""
    chunks = [seeds[i : i + CHUNK] for i in range(0, len(seeds), CHUNK)]
    if options.jobs == 1:
        for chunk in chunks:
            yield from live_through(chunk, options.scenario, options.breakage)
        return
    is_over = multiprocessing.Event()
    with ProcessPoolExecutor(options.jobs, initializer=Worker.begin, initargs=(is_over,)) as pool:
        futures = [
            pool.submit(live_through, chunk, options.scenario, options.breakage) for chunk in chunks
        ]
        try:
            for future in futures:
                yield from future.result()
        finally:  # whoever asks stops asking at the first that broke something
            is_over.set()
            pool.shutdown(cancel_futures=True)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/simulate",
        description="Lives lives of whole clusters in one process, with kills, pauses, cuts of "
        "every shape, slow links, full disks and changing policies, one life per seed, and checks "
        "that every promise about mirrored queues was kept. Stops at the first that was not.",
    )
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--runs", type=int, default=100, help="how many seeds (default: 100)")
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help=f"processes to use (default: 1; this machine has {os.cpu_count()} processors)",
    )
    parser.add_argument(
        "--scenario",
        choices=list(SCENARIOS),
        default="random",
        metavar="NAME",
        help="one of: " + ", ".join(SCENARIOS) + " (default: random)",
    )
    parser.add_argument(
        "--break",
        dest="breakage",
        choices=list(BREAKS),
        default="",
        metavar="NAME",
        help="break the protocol on purpose, to see it found out: " + ", ".join(BREAKS),
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
