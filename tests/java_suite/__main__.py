"""The Java suite: scripts/java-suite [--rabbitmq] [--client REPOSITORY] [--codegen REPOSITORY]

Runs the functional and server tests of the RabbitMQ team's own Java client against Warren. With
--rabbitmq the same tests run against a RabbitMQ, too, and those that differ are listed: what
passes there has to pass here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from java_suite.brokers import ControlServer, RabbitMQ, Warren, is_rabbitmq_installed
from java_suite.runs import Outcomes, run_until_passed
from java_suite.sources import TAG, Missing, prepare

CANNOT_RUN: Final = 77
LEFT_OUT: Final = {
    "EffectVisibilityCrossNodeTest": "needs a cluster of two nodes",
    "ChannelLimitNegotiation": "sets channel_max of a running node by Erlang code",
    "LoopbackUsers": "sets loopback_users of a running node by Erlang code",
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="java-suite", description="Run the Java client's tests.")
    parser.add_argument("--client", help=f"git repository of rabbitmq-java-client with {TAG}")
    parser.add_argument("--codegen", help="git repository of rabbitmq-codegen")
    parser.add_argument("--rabbitmq", action="store_true", help="compare with a RabbitMQ")
    parser.add_argument("--tries", type=int, default=3, help="of a class with tests that fail")
    parser.add_argument("--seconds", type=float, default=300.0, help="for a class, at most")
    parser.add_argument("--work", type=Path, help="where to build and to leave logs")
    parser.add_argument("classes", nargs="*", metavar="CLASS", help="of the suites; all")
    return parser.parse_args()


def run_on(kind: type[Warren], names: list[str], options: argparse.Namespace) -> Outcomes:
    """Start a broker, run all classes against it one after the other, stop it."""
    found = Outcomes()
    with tempfile.TemporaryDirectory(prefix="java-suite-") as directory:
        broker = kind(Path(directory) / "broker")
        control = ControlServer(broker, Path(directory) / "control")
        logs = options.work / kind.name
        logs.mkdir(exist_ok=True)
        try:
            for name in names:
                found.of |= run_until_passed(control, name, logs / f"{name}.log", options)
                print(f"{kind.name}: {name.rpartition('.')[2]} done", file=sys.stderr, flush=True)
        finally:
            control.shutdown()
            broker.process.stop()
    return found


def report(reference: Outcomes | None, ours: Outcomes) -> int:
    """Print what differs, or without a reference what failed; returns the exit code."""
    if reference is None:
        bad = [test for test, outcome in ours.of.items() if outcome.startswith("failed")]
        for test in bad:
            print(f"{test}: {ours.of[test]}")
        print(f"Warren: {ours.counts}")
        return bool(bad)
    tests = sorted({*reference.of, *ours.of})
    both = sum(reference.passed(test) and ours.passed(test) for test in tests)
    differing = [test for test in tests if reference.passed(test) != ours.passed(test)]
    print("| test | RabbitMQ | Warren |\n|---|---|---|")
    for test in differing:
        print(f"| {test} | {reference.of.get(test, '-')} | {ours.of.get(test, '-')} |")
    print(f"RabbitMQ: {reference.counts}\nWarren: {ours.counts}")
    print(f"passed on both: {both}; neither: {len(tests) - both - len(differing)}; "
          f"differ: {len(differing)}")  # fmt: skip
    return any(reference.passed(test) for test in differing)


def main() -> int:
    options = parse()
    options.work = (options.work or Path(tempfile.gettempdir()) / "warren-java-suite").absolute()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.rabbitmq and not is_rabbitmq_installed():
        raise Missing("needs Debian's package: apt-get install rabbitmq-server")
    listed, options.built = prepare(options.client, options.codegen, options.work)
    names = [name for name in listed if name.rpartition(".")[2] not in LEFT_OUT]
    if options.classes:
        names = [name for name in names if name.rpartition(".")[2] in options.classes]
    for name, why in LEFT_OUT.items():
        print(f"left out: {name} ({why})")
    kinds = (Warren, RabbitMQ) if options.rabbitmq else (Warren,)
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(run_on, kind, names, options) for kind in kinds]
    outcomes = [run.result() for run in runs]
    return report(outcomes[1] if options.rabbitmq else None, outcomes[0])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Missing as lack:
        print(lack, file=sys.stderr)
        sys.exit(CANNOT_RUN)
