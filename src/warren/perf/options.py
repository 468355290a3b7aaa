"""The options of `warren perf`, declared once: the command line and the help come from here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

import typer

BACKLOG_SLACK: Final = 1000
"""With --backlog, how far the queue may grow beyond it before producers pause."""


def option(text: str, panel: str = "Load") -> object:
    return typer.Option(help=text, rich_help_panel=panel)


def flag(name: str, text: str, panel: str = "Load") -> object:
    """Named, or Typer would add a --no-name that does nothing."""
    return typer.Option(name, help=text, rich_help_panel=panel, show_default=False)


WHERE: Final = "Where"
TOPOLOGY: Final = "Topology"
END: Final = "When it ends"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    host: Annotated[str, option("The broker's host.", panel=WHERE)] = "127.0.0.1"
    port: Annotated[int, option("The broker's AMQP port.", panel=WHERE)] = 5672
    user: Annotated[str, option("Who to log in as.", panel=WHERE)] = "guest"
    password: Annotated[str, option("With which password.", panel=WHERE)] = "guest"
    vhost: Annotated[str, option("Virtual host.", panel=WHERE)] = "/"
    consumer_host: Annotated[str, option("Another host for consumers.", panel=WHERE)] = ""
    consumer_port: Annotated[int, option("Another port for consumers.", panel=WHERE)] = 0
    endpoints: Annotated[str, option("More of them, H:P,H:P, for --reconnect.", panel=WHERE)] = ""
    heartbeat: Annotated[int, option("Seconds; 0 for none.", panel=WHERE)] = 60
    frame_max: Annotated[int, option("Largest frame in bytes.", panel=WHERE)] = 131_072

    declare: Annotated[
        bool, flag("--declare", "Declare queues, exchange, bindings.", panel=TOPOLOGY)
    ] = False
    delete_after: Annotated[
        bool, flag("--delete-after", "Delete them at the end.", panel=TOPOLOGY)
    ] = False
    purge: Annotated[bool, flag("--purge", "Empty the queues first.", panel=TOPOLOGY)] = False
    queue: Annotated[str, option("Queue name; with --queues a prefix.", panel=TOPOLOGY)] = "perf"
    queues: Annotated[int, option("How many: NAME-0, NAME-1 ...", panel=TOPOLOGY)] = 1
    durable: Annotated[bool, flag("--durable", "Durable queues and exchange.", panel=TOPOLOGY)] = (
        False
    )
    auto_delete: Annotated[bool, flag("--auto-delete", "Auto-delete queues.", panel=TOPOLOGY)] = (
        False
    )
    queue_arg: Annotated[
        list[str], option("x-max-length=1000 and so on; repeatable.", panel=TOPOLOGY)
    ] = field(default_factory=list)
    exchange: Annotated[str, option("Publish to this exchange.", panel=TOPOLOGY)] = ""
    exchange_type: Annotated[str, option("Declare it with this type.", panel=TOPOLOGY)] = ""
    bind_key: Annotated[str, option("Bind with this key, %d counts.", panel=TOPOLOGY)] = ""
    binds: Annotated[int, option("How many bindings (one per queue).", panel=TOPOLOGY)] = -1

    producers: Annotated[int, option("Publishing connections.")] = 1
    consumers: Annotated[int, option("Consuming connections.")] = 1
    size: Annotated[int, option("Body size; below 16 nothing is tracked.")] = 100
    persistent: Annotated[bool, flag("--persistent", "Delivery mode 2.")] = False
    confirm: Annotated[int, option("Publisher confirms, with so many in flight.")] = 0
    mandatory: Annotated[bool, flag("--mandatory", "Publish with the mandatory flag.")] = False
    routing_key: Annotated[str, option("Routing key, %d counts; default: queue names.")] = ""
    rk_range: Annotated[int, option("How many values %d takes.")] = 1
    rate: Annotated[float, option("Messages a second of each producer; 0: no limit.")] = 0.0
    prefetch: Annotated[int, option("Consumer prefetch; 0: no limit.")] = 0
    autoack: Annotated[bool, flag("--autoack", "Consume without acknowledgements.")] = False
    ack_every: Annotated[int, option("Acknowledge so many at once.")] = 1
    publish_only: Annotated[bool, flag("--publish-only", "No consumers.")] = False
    drain: Annotated[bool, flag("--drain", "No producers: empty the queue.")] = False
    backlog: Annotated[int, option("Keep so many messages waiting while they flow.")] = 0
    idle_conns: Annotated[int, option("Only open so many connections and hold them.")] = 0
    idle_channel: Annotated[bool, flag("--idle-channel", "... with a channel each.")] = False
    open_threads: Annotated[int, option("... opening so many at a time.")] = 4

    count: Annotated[int, option("Messages to publish in all.", panel=END)] = 0
    time: Annotated[float, option("Seconds to publish (10 without --count).", panel=END)] = 0.0
    expect: Annotated[int, option("With --drain: stop after so many.", panel=END)] = 0
    idle: Annotated[float, option("Give up after so long without messages.", panel=END)] = 2.0
    max_seconds: Annotated[float, option("Give up after so long in all.", panel=END)] = 120.0
    reconnect: Annotated[
        bool, flag("--reconnect", "Survive lost connections and resend.", panel=END)
    ] = False

    broker_pid: Annotated[str, option("P[,P]: report their CPU and memory.", panel="Report")] = ""
    json: Annotated[bool, flag("--json", "One JSON object instead of a table.", panel="Report")] = (
        False
    )
    verbose: Annotated[
        bool, flag("--verbose", "Tell of errors as they happen.", panel="Report")
    ] = False

    def queue_name(self, number: int) -> str:
        return f"{self.queue}-{number}" if self.queues > 1 else self.queue

    @property
    def copies(self) -> int:
        """How many queues each message goes to, which duplicates are told from by."""
        return self.queues if self.exchange_type == "fanout" else 1

    @property
    def seconds(self) -> float:
        return self.time if self.time or self.count or self.drain else 10.0

    def addresses(self, for_consumer: bool) -> list[tuple[str, int]]:
        """Where to connect, in the order to try."""
        own = [(self.host, self.port)]
        if self.consumer_host or self.consumer_port:
            other = (self.consumer_host or self.host, self.consumer_port or self.port)
            own = [other, *own] if for_consumer else [*own, other]
        for endpoint in filter(None, self.endpoints.split(",")):
            host, _, port = endpoint.rpartition(":")
            if (host, int(port)) not in own:
                own.append((host, int(port)))
        return own


def numbered(pattern: str, number: int) -> str:
    return pattern.replace("%d", str(number), 1)


def share(worker: int, workers: int, queues: int) -> list[int]:
    """Return the queues of a worker: every worker has some, and every queue is used."""
    return [worker % queues] if workers >= queues else list(range(worker, queues, workers))
