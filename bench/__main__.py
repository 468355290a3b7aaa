"""The command line of scripts/bench."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.console import Console

from bench.attacks import attacks
from bench.backlog import MESSAGES, backlogs
from bench.bodies import bodies
from bench.brokers import STARTERS, Broker, NotInstalled, allow_many_files
from bench.cluster_start import QUEUES, cluster_starts
from bench.commits import COMMITS, commits
from bench.compare import compare
from bench.declaring import declaring
from bench.declaring_mirrored import declaring_mirrored
from bench.failover import failovers
from bench.failover_many import failovers_of_many
from bench.fairness import fairness
from bench.idle import idle
from bench.idle_cost import idle_cost
from bench.ingesting import MESSAGES as INGEST_MESSAGES
from bench.ingesting import ingesting
from bench.load import tool
from bench.many import many
from bench.many_mirrored import many_mirrored
from bench.message_bodies import BODIES
from bench.mirrored import mirrored
from bench.paging import paging
from bench.pipeline import PATHS, ROWS, pipeline
from bench.remote import remote
from bench.report import Table, write_markdown
from bench.restart import restarts
from bench.scaling import scaling
from bench.scenarios import SCENARIOS
from bench.scraping import scraping
from bench.sync import MESSAGES as SYNC_MESSAGES
from bench.sync import synchronising

GROUPS: Final = (
    "all", "scaling", "backlog", "bodies", "restart", "scraping", "idle", "idle-cost", "remote",
    "declare", "cluster-start", "declare-mirrored", "mirrored", "many-mirrored", "sync", "failover",
    "failover-many", "pipeline", "ingest", "commits", "paging", "fairness", "many", "attacks",
)  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    listing = "\n".join(f"  {s.name:<8} {s.title}" for s in SCENARIOS.values())
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure Warren beside RabbitMQ, where that is installed.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"scenarios:\n{listing}\n  {'all':<8} all of these (the default)\n"
        f"  {'scaling':<8} cost per message with 1, 100, 10 000 of everything\n"
        f"  {'backlog':<8} a million messages in a default and a lazy queue, and out again\n"
        f"  {'paging':<8} more messages than fit into memory: their states over time, as a plot\n"
        f"  {'bodies':<8} large bodies to ten queues: kept once, or in each queue\n"
        f"  {'restart':<8} the time Warren takes to start with many messages, and the memory\n"
        f"  {'scraping':<8} Warren with 20 000 queues while Prometheus looks at it\n"
        f"  {'fairness':<8} another client's confirms while one does something large\n"
        f"  {'attacks':<8} a tenant's confirms while others attack the broker\n"
        f"  {'idle':<8} start-up time and memory of a broker at rest\n"
        f"  {'idle-cost':<8} CPU, calls and wake-ups of a message at 1 to 10 000 msg/s\n"
        f"  {'many':<8} what 10 000 connections, queues, bindings cost, each and all at once\n"
        f"  {'pipeline':<8} queues as DataFrames: what Spark's source and sink cost\n"
        f"  {'ingest':<8} {INGEST_MESSAGES:,} messages by a stream into a lake, and the memory\n"
        f"  {'commits':<8} {COMMITS:,} commits to a Delta table: whether they get slower\n"
        "clusters of three nodes (Warren's need etcd):\n"
        f"  {'remote':<8} publish to and consume from another node's queue\n"
        f"  {'declare':<8} durable queues, by one client, by ten and by fifty at once\n"
        f"  {'declare-mirrored':<8} mirrored queues, 500 by one client and 5 000 by fifty\n"
        f"  {'cluster-start':<8} the time each of three nodes with {QUEUES} queues takes to start\n"
        f"  {'mirrored':<8} a queue with three copies: rate, CPU of all nodes, time of a confirm\n"
        f"  {'many-mirrored':<8} 500 and 2000 mirrored queues with ten messages a second each\n"
        f"  {'sync':<8} what publishers see while a mirror gets a backlog of {SYNC_MESSAGES:,}\n"
        f"  {'failover':<8} how long publishers wait when a queue's master ends, and what is lost\n"
        f"  {'failover-many':<8} the same for 500 and 2 000 queues, whose master is killed",
    )
    parser.add_argument("names", nargs="*", metavar="SCENARIO", default=["all"])
    parser.add_argument("--repeats", type=int, default=3, help="runs per figure (%(default)s)")
    parser.add_argument("--seconds", type=float, default=8, help="length of a run (%(default)s)")
    parser.add_argument(
        "--messages", type=int, default=MESSAGES, help="of backlog, restart (%(default)s)"
    )
    parser.add_argument(
        "--sync-messages", type=int, default=SYNC_MESSAGES, help="of sync (%(default)s)"
    )
    parser.add_argument(
        "--ingest-messages", type=int, default=INGEST_MESSAGES, help="of ingest (%(default)s)"
    )
    parser.add_argument("--commits", type=int, default=COMMITS, help="of commits (%(default)s)")
    parser.add_argument(
        "--share",
        type=float,
        default=1.0,
        help="of the messages of paging, fairness, and of the things of many (%(default)s)",
    )
    parser.add_argument("--rows", type=int, default=ROWS, help="of pipeline (%(default)s)")
    parser.add_argument("--bodies", choices=BODIES, help="of pipeline (one after the other)")
    parser.add_argument(
        "--paths", nargs="+", choices=PATHS, default=PATHS, help="of pipeline (all of them)"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    parser.add_argument("--only", choices=sorted(STARTERS), help="measure one broker alone")
    return parser


def start_all(names: Sequence[str], stack: ExitStack, console: Console) -> list[Broker]:
    brokers = []
    for name in names:
        try:
            brokers.append(stack.enter_context(STARTERS[name]()))
        except NotInstalled as missing:
            console.print(f"not installed, so not compared with: {missing}")
    return brokers


def measure_all(options: argparse.Namespace, names: list[str], console: Console) -> list[Table]:
    starters = [options.only] if options.only else list(STARTERS)
    chosen = list(SCENARIOS) if "all" in names else [n for n in names if n in SCENARIOS]
    say = console.log if console.is_terminal else print
    tables = []
    with ExitStack() as stack:
        if chosen or "scaling" in names:
            brokers = start_all(starters, stack, console)
        if chosen:
            scenarios = [SCENARIOS[n] for n in chosen]
            tables.append(compare(brokers, scenarios, options.repeats, options.seconds, say))
        if "scaling" in names:
            tables.append(scaling(brokers, options.repeats, options.seconds, say))
    if "backlog" in names:
        tables.append(backlogs(starters, options.messages, say))
    if "paging" in names:
        tables.append(paging(options.share, say))
    if "bodies" in names:
        tables.append(bodies(options.repeats, say))
    if "restart" in names:
        tables.append(restarts(options.messages, say))
    if "scraping" in names:
        tables.append(scraping(options.repeats, options.seconds, say))
    if "idle" in names:
        tables.append(idle(starters, say))
    if "pipeline" in names:
        tables += pipelines(options, say)
    if "ingest" in names:
        tables.append(ingesting(options.ingest_messages, say))
    return tables + measure_clusters(options, names, starters, say)


def pipelines(options: argparse.Namespace, say: Callable[[str], None]) -> list[Table]:
    chosen = [options.bodies] if options.bodies else BODIES
    return [pipeline(options.rows, options.repeats, say, kind, options.paths) for kind in chosen]


def measure_clusters(
    options: argparse.Namespace,
    names: Sequence[str],
    starters: Sequence[str],
    say: Callable[[str], None],
) -> list[Table]:
    repeats, seconds = options.repeats, options.seconds
    measures: dict[str, Callable[[], list[Table]]] = {
        "fairness": lambda: [fairness(starters, options.share, say)],
        "many": lambda: many(starters, options.share, say),
        "commits": lambda: [commits(options.commits, say)],
        "attacks": lambda: [attacks(seconds, say)],
        "idle-cost": lambda: idle_cost(seconds, say),
        "remote": lambda: [remote(starters, repeats, seconds, say)],
        "declare": lambda: [declaring(starters, repeats, say)],
        "declare-mirrored": lambda: [declaring_mirrored(starters, say)],
        "cluster-start": lambda: [cluster_starts(repeats, say)],
        "mirrored": lambda: [mirrored(starters, repeats, seconds, say)],
        "many-mirrored": lambda: [many_mirrored(starters, repeats, seconds, say)],
        "sync": lambda: [synchronising(starters, options.sync_messages, say)],
        "failover": lambda: [failovers(starters, repeats, say)],
        "failover-many": lambda: [failovers_of_many(starters, say)],
    }
    return [table for name, run in measures.items() if name in names for table in run()]


def heading() -> str:
    load = Path(tool()[0]).name
    return (
        f"# Warren beside RabbitMQ\n\nMeasured by `scripts/bench` with {load} on "
        f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}."
    )


def main() -> int:
    parser = build_parser()
    options = parser.parse_args()
    unknown = [n for n in options.names if n not in SCENARIOS and n not in GROUPS]
    if unknown:
        parser.error(f"no such scenario: {', '.join(unknown)}")
    allow_many_files()
    console = Console(width=None if sys.stdout.isatty() else 160)
    tables = measure_all(options, options.names, console)
    for table in tables:
        table.show(console)
    if options.markdown:
        write_markdown(options.markdown, heading(), tables)
    return 1 if any(table.failures for table in tables) else 0


if __name__ == "__main__":
    sys.exit(main())
