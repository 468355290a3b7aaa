"""`warren pipeline audit`: audit whether copies of queues and streams are the same on all nodes.

Every node's files are read (`stores.py`, `stream_stores.py`). Each message of a queue becomes a
hash of its route, properties and body, each chunk of a stream a hash of its bytes. These are
compared (`comparing.py`); what is not on every node is a finding:

    missing     some copy lacks it (or has it without its body, which is as good)
    divergent   all copies have the message, but not equally often; of a stream: copies have other
                bytes at the same offset
    duplicate   all copies have the message equally often, more than once: the same content was
                published twice, or taken twice; only a message id can tell which
    absent      a node has nothing at all of a queue or stream
    unconfirmed an id of the producer's log that no copy has

Whether a queue should have a copy everywhere is not in the files: policies are not. So `--copies`
says on how many nodes each has to be, and by default it is all that are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from pyspark_warren.errors import InvalidOption
from pyspark_warren.jobs.audit_report import report_of
from pyspark_warren.jobs.audited import Audited, Difference, NodeFigures
from pyspark_warren.jobs.comparing import (
    absent,
    chunk_differences,
    confirmed_missing,
    damage,
    figures,
    message_differences,
)
from pyspark_warren.jobs.findings import OF_QUEUES
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.queries import patiently
from pyspark_warren.jobs.reports import check_writable
from pyspark_warren.jobs.store_source import StoreSource, parse_nodes
from pyspark_warren.jobs.watching import Watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """Options of an audit: the nodes to compare, and with what."""

    nodes: Annotated[
        str,
        Parameter(
            metavar="NAME=DIR,...",
            help="Nodes and their data directories, or copies of those. They are only read. Let "
            "queues rest meanwhile, or stop the nodes.",
        ),
    ]
    queue: Annotated[str | None, Parameter(help="Compare only this queue or stream.")] = None
    copies: Annotated[
        int | None,
        Parameter(
            min=1,
            help="On how many nodes each queue and stream has to be; 1 for queues without mirrors.",
            show_default="all nodes",
        ),
    ] = None
    confirmed: Annotated[
        str | None,
        Parameter(
            metavar="FILE",
            help="A log of a producer: ids of messages, one a line, that were confirmed and not "
            "consumed. Each must be on some node.",
        ),
    ] = None
    report: Annotated[
        str | None, Parameter(metavar="FILE", help="Write an HTML report, with plots.")
    ] = None

    def check(self) -> None:
        """Raise InvalidOption if something that is named does not exist."""
        parse_nodes(self.nodes)
        is_local = self.confirmed is not None and ":" not in self.confirmed
        if is_local and not Path(str(self.confirmed)).exists():
            raise InvalidOption(f"option confirmed: there is no file {self.confirmed}")
        check_writable(self.report)


def audit(spark: SparkSession, options: AuditOptions, watch: Watch | None = None) -> Audited:
    """Compare the copies, and write the report if there is to be one.

    Raises
    ------
    WarrenError
        If a directory is not one of a node.
    """
    watch = watch or Watch()
    done = patiently(lambda: _compare(spark, options, watch))
    if options.report is not None:
        report_of(done).write(options.report)
        watch.say(f"the report is {options.report}")
    return done


def _compare(spark: SparkSession, options: AuditOptions, watch: Watch) -> Audited:
    options.check()
    directories = parse_nodes(options.nodes)
    nodes = list(directories)
    spark.dataSource.register(StoreSource)
    # Spark's processes may have other working directories.
    absolute = ",".join(f"{name}={Path(path).absolute()}" for name, path in directories.items())
    reader = spark.read.format("warren-stores").option("nodes", absolute)
    rows = reader.option("ids", str(options.confirmed is not None).lower()).load()
    if options.queue is not None:
        rows = rows.filter(~F.col("kind").isin(*OF_QUEUES) | (F.col("queue") == options.queue))
    rows = rows.persist()
    try:
        done = Audited(nodes=figures(rows, nodes))
        watch.say(f"{_sums(done)} on {', '.join(nodes)}")
        done.absent = absent(rows, nodes, options.copies or len(nodes))
        done.damage = damage(rows)
        done.differences = [*message_differences(rows, nodes), *chunk_differences(rows)]
        if options.confirmed is not None:
            log = options.confirmed
            log = log if ":" in log else str(Path(log).absolute())
            done.confirmed_missing = confirmed_missing(spark, rows, log)
        return done
    finally:
        rows.unpersist()


def _sums(done: Audited) -> str:
    nodes = done.nodes.values()
    messages, records = sum(node.messages for node in nodes), sum(node.records for node in nodes)
    return f"{messages:,} messages in queues and {records:,} records in streams"


__all__ = ["AuditOptions", "Audited", "Difference", "NodeFigures", "audit"]
