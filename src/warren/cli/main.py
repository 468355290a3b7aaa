"""`warren`: starts the broker, checks its configuration, measures it.

Everything a command needs is imported when it runs, so that `warren --help` and a start of the
server do not pay for each other.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from warren import __version__

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from warren.config.file import ConfigFile
    from warren.config.settings import Config
    from warren.config.values import Endpoint
    from warren.server.node import Node

EXIT_UNAVAILABLE: Final = 69
EXIT_CONFIG: Final = 78
DEFAULT_BIND: Final = "127.0.0.1"

app = typer.Typer(
    name="warren",
    help="An AMQP 0-9-1 broker, compatible with RabbitMQ 3.x.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


# The options of `warren server`. None means "not said": then the file decides, or the default.
Name = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Name of this node.", show_default="warren@<host>"),
]
Bind = Annotated[
    str | None,
    typer.Option(
        metavar="ADDR", help="Address to listen on, AMQP and HTTP.", show_default=DEFAULT_BIND
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, metavar="PORT", help="Port for AMQP clients.", show_default="5672"
    ),
]
HttpPort = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, metavar="PORT", help="Port of the HTTP API.", show_default="15672"
    ),
]
ClusterPort = Annotated[
    int, typer.Option(min=0, max=65535, metavar="PORT", help="Port for other nodes of a cluster.")
]
DataDir = Annotated[
    Path, typer.Option(metavar="DIR", help="Where the node keeps its data; made if missing.")
]
ConfigPath = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file as rabbitmq.conf, or of Erlang terms if its name ends with .config.",
        show_default="$RABBITMQ_CONFIG_FILE",
    ),
]
Metadata = Annotated[
    str,
    typer.Option(
        metavar="STORE",
        envvar="WARREN_METADATA",
        help="Where users and topology are kept: sqlite, or etcd://HOST:PORT,...",
    ),
]
ClusterSecret = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        envvar="WARREN_CLUSTER_SECRET",
        help="What all nodes of a cluster know and nobody else; never sent.",
    ),
]


@app.command()
def server(  # noqa: PLR0913 - these are the options of the command line
    *,
    name: Name = None,
    bind: Bind = None,
    port: Port = None,
    http_port: HttpPort = None,
    cluster_port: ClusterPort = 25672,
    data_dir: DataDir = Path("warren-data"),
    config: ConfigPath = None,
    metadata: Metadata = "sqlite",
    cluster_secret: ClusterSecret = "",
) -> None:
    """Start a broker and serve until SIGTERM or Ctrl-C; a second signal stops at once."""
    _check_metadata(metadata, cluster_secret)
    files = _config_files(config)
    read = _read(files)
    settings = replace(
        read.config(),
        config_files=tuple(files),
        data_dir=data_dir,
        metadata=metadata,
        cluster_port=cluster_port,
        cluster_secret=cluster_secret,
    )
    if name is not None:
        settings = replace(settings, name=name)
    settings = listening_for_http(settings, read, http_port)
    _serve(listening(settings, read, bind, port), read)


@app.command()
def cluster(
    nodes: Annotated[int, typer.Option(min=1, max=16, help="How many nodes.")] = 3,
    data_dir: DataDir = Path("warren-cluster"),
) -> None:
    """Start etcd and some nodes on this machine, say how to use them, and stop them with Ctrl-C."""
    from warren.cli.cluster import run_cluster

    _require_cluster_packages()
    run_cluster(data_dir, nodes)


@app.command()
def demo(
    seconds: Annotated[
        float, typer.Option(min=1, max=3600, help="How long to publish, waits not counted.")
    ] = 20,
    rate: Annotated[float, typer.Option(min=1, help="Messages a second.")] = 2000,
    spark: Annotated[bool, typer.Option(help="Read the queue from Spark, if installed.")] = True,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    stay: Annotated[
        bool, typer.Option("--stay", help="Go on until Ctrl-C, to look around.")
    ] = False,
) -> None:
    """Three nodes, a mirrored queue under load, kill -9 of its leader, and nothing is lost.

    Ends by itself, with code 0 if every confirmed message was read back.
    """
    from warren.cli.demo.program import DemoOptions, run_demo

    _require_cluster_packages()
    raise typer.Exit(run_demo(DemoOptions(seconds, rate, spark, open_page, stay)))


@app.command()
def reset(
    data_dir: DataDir = Path("warren-data"),
    force: Annotated[bool, typer.Option("--force", help="Do not ask.")] = False,
) -> None:
    """Delete all that a node has kept in its data directory; it must not be running.

    A node of a cluster is a member until another one is told to forget it: run
    'warrenctl forget_cluster_node' there first. 'warrenctl reset' does both at a node that runs.
    """
    from warren.server.process import NodeFailedError, reset_directory

    if not force and not typer.confirm(f"Delete all messages and settings in {data_dir}?"):
        raise typer.Exit(1)
    try:
        reset_directory(data_dir)
    except NodeFailedError as error:
        _fail(str(error), EXIT_UNAVAILABLE)


@app.command("check-config")
def check_config(
    file: Annotated[
        Path, typer.Argument(help="A configuration file: rabbitmq.conf, or Erlang terms (.config).")
    ],
) -> None:
    """Say whether a configuration file is right, and what it sets.

    An advanced.config beside it is read as well, as by 'warren server --config FILE'.
    """
    import asyncio

    from warren.config.reference import shown
    from warren.config.settings import settings as known
    from warren.server.backends.choosing import UnusableBackend, require_usable

    files = _config_files(file)
    read = _read(files)
    try:
        asyncio.run(require_usable(read.config()))
    except UnusableBackend as error:
        _fail(str(error), EXIT_CONFIG)
    for setting in known().values():
        if setting.key in read.said:
            value = "(secret)" if setting.is_secret else shown(read.said[setting.key])
            typer.echo(f"{setting.key} = {value}")
    for key in read.pending:
        typer.echo(f"{key}: understood, but has no effect in this version")
    for path in files:
        typer.echo(f"{path}: ok")


@app.command()
def settings(
    markdown: Annotated[bool, typer.Option(help="As docs/CONFIGURATION.md has them.")] = False,
) -> None:
    """List what a configuration file can set, with defaults."""
    from warren.config.reference import reference, rows

    if markdown:
        typer.echo(reference(), nl=False)
        return
    for key, default, meaning in rows():
        typer.echo(f"{key} = {default}\n    {meaning}")


@app.command()
def version() -> None:
    """Print the version."""
    from warren.protocol.capabilities import COMPATIBLE_VERSION

    typer.echo(f"warren {__version__} (compatible with RabbitMQ {COMPATIBLE_VERSION})")


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def perf(context: typer.Context) -> None:
    """Put load on a broker, and report what it did (warren perf --help)."""
    from warren.perf.command import perf as command

    load = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    load.command()(command)
    load(args=context.args, prog_name="warren perf")


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def pipeline(context: typer.Context) -> None:
    """Run a job on queues with Spark: ingest and others (warren pipeline --help)."""
    # By name, since the broker needs no Spark and nothing of it imports what does.
    for package in ("pyspark", "pyarrow", "numpy"):
        if find_spec(package) is None:
            _fail("warren pipeline needs Spark: pip install 'warren[spark]'", EXIT_UNAVAILABLE)
    jobs = import_module("pyspark_warren.jobs.command")
    jobs.app(args=context.args, prog_name="warren pipeline")


def main() -> None:
    app()


def _serve(config: Config, read: ConfigFile) -> None:
    from warren.server.process import NodeFailedError, serve

    try:
        serve(config, read.pending, _management)
    except NodeFailedError as error:
        _fail(str(error), EXIT_UNAVAILABLE)


def _management(node: Node) -> Starlette:
    """Imported when the node asks: its addresses are taken by then, or the start has failed."""
    from warren.management.application import build_application

    return build_application(node)


def listening(config: Config, read: ConfigFile, bind: str | None, port: int | None) -> Config:
    """The command line goes before the file, and what is said before what is only a default."""
    from warren.config.settings import AMQP_PORT
    from warren.config.values import Endpoint

    if port is not None or "tcp_listeners" not in read.values:
        chosen = port if port is not None else AMQP_PORT
        config = replace(config, tcp_listeners=(Endpoint(bind or DEFAULT_BIND, chosen),))
    elif bind is not None:
        config = replace(config, tcp_listeners=_bound_to(bind, config.tcp_listeners))
    if bind is not None:
        over_tls = _bound_to(bind, config.ssl_listeners)
        config = replace(config, http_ip=bind, ssl_listeners=over_tls)
    return config


def listening_for_http(config: Config, read: ConfigFile, http_port: int | None) -> Config:
    """As RabbitMQ: with a port for TLS and none without it, what is said and no more."""
    if http_port is not None:
        return replace(config, http_port=http_port)
    is_plain = config.management_tls.port is None or "http_port" in read.values
    return replace(config, has_plain_http=is_plain)


def _bound_to(address: str, listeners: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """With this address where none is said."""
    return tuple(replaced._replace(host=replaced.host or address) for replaced in listeners)


def _check_metadata(metadata: str, cluster_secret: str) -> None:
    from warren.config.settings import SECRET_CHARS_MIN
    from warren.metadata.etcd_address import BadEtcdAddress, parse_etcd_address

    if metadata == "sqlite":
        return
    try:
        parse_etcd_address(metadata)
    except BadEtcdAddress as error:
        _fail(f"--metadata: {error}, or sqlite", EXIT_CONFIG)
    if not cluster_secret:
        _fail(
            "a node of a cluster needs --cluster-secret (or WARREN_CLUSTER_SECRET), the same one "
            "at all nodes",
            EXIT_CONFIG,
        )
    if len(cluster_secret) < SECRET_CHARS_MIN:
        _fail(
            f"the cluster's secret has {len(cluster_secret)} characters: choose one with "
            f"{SECRET_CHARS_MIN} or more, at all nodes, such as `openssl rand -hex 32` prints",
            EXIT_CONFIG,
        )
    _require_cluster_packages()


def _require_cluster_packages() -> None:
    if find_spec("hpack") is None:
        _fail(
            "--metadata etcd://... needs more packages: pip install 'warren[cluster]'", EXIT_CONFIG
        )


def _config_files(given: Path | None) -> list[Path]:
    from warren.config.sources import config_files

    return config_files(given, os.environ)


def _read(files: list[Path]) -> ConfigFile:
    from warren.config.file import ConfigError, read_config_files

    try:
        return read_config_files(files)
    except ConfigError as error:
        _fail(str(error), EXIT_CONFIG)


def _fail(text: str, code: int) -> NoReturn:
    for line in text.splitlines():
        print(f"Error: {line}", file=sys.stderr)
    raise typer.Exit(code)


if __name__ == "__main__":
    main()
