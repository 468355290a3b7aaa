"""Session of Spark for a job that runs as a command: one of its own, or one of a Connect server.

With Spark Connect (`--master sc://HOST:PORT`) this process has no JVM and no Spark of its own: the
server's settings hold, and its Python workers have to have this package.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from pyspark_warren.errors import InvalidOption
from pyspark_warren.java import ensure_quiet_java
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.queries import JobFailed, reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Spark says while it starts and runs is for who asks for it: --conf spark.log.level=INFO.
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_MASTERS: Final = re.compile(
    r"local(\[[\w*]+(,\s*\d+)?\])?|local-cluster\[.+\]|spark://.+|yarn|k8s://.+|sc://.+"
)
_CONNECT: Final = "sc://"
_CONNECT_PORT: Final = 15_002
_CONNECTED_WITHIN_S: Final = 10.0
_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
}


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """Where Spark runs."""

    master: Annotated[
        str,
        Parameter(
            envvar="WARREN_SPARK_MASTER",
            help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://..., or "
            "sc://HOST:PORT for Spark Connect.",
        ),
    ] = "local[*]"
    conf: Annotated[
        list[str] | None,
        Parameter(metavar="KEY=VALUE", help="A setting of Spark; may be given several times."),
    ] = None

    def check(self) -> None:
        """Raise InvalidOption for a master that Spark does not know, or a setting that is none."""
        if not _MASTERS.fullmatch(self.master):
            raise InvalidOption(
                f"option master: {self.master!r} is none of local[N], spark://HOST:PORT, yarn, "
                "k8s://..., sc://HOST:PORT"
            )
        _given(self)


def make_session(name: str, options: SessionOptions) -> SparkSession:
    """Raise InvalidOption for a setting that is none, JobFailed if Spark does not start."""
    if options.master.startswith(_CONNECT):
        return _connected_session(options)
    from pyspark.sql import SparkSession

    from pyspark_warren.worker_python import use_this_python

    ensure_quiet_java()
    use_this_python(is_local=options.master.startswith("local"))
    settings = {**_DEFAULTS, **_given(options)}
    if options.master.startswith("local"):
        settings.setdefault("spark.driver.host", "127.0.0.1")
        settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
        # Spark's own is 200, which is for clusters.
        settings.setdefault("spark.sql.shuffle.partitions", str(os.cpu_count() or 1))
    builder = SparkSession.builder.master(options.master).appName(f"warren {name}")
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise JobFailed(f"Spark does not start at {options.master}: {reason_of(error)}") from error


def _connected_session(options: SessionOptions) -> SparkSession:
    """Return a session of a Connect server. Raises JobFailed at once if no server is there.

    Spark's client would go on trying for many minutes.
    """
    from pyspark.sql import SparkSession

    address = urlsplit(options.master)
    try:
        port = address.port or _CONNECT_PORT
        socket.create_connection((address.hostname, port), _CONNECTED_WITHIN_S).close()
    except (OSError, ValueError) as error:
        raise JobFailed(
            f"no Spark Connect server answers at {_CONNECT}{address.hostname}: {error}"
        ) from error
    try:
        spark = SparkSession.builder.remote(options.master).getOrCreate()
        settings = {"spark.sql.session.timeZone": "UTC", **_given(options)}
        for key, value in settings.items():
            spark.conf.set(key, value)
    except ImportError as error:
        raise JobFailed(
            f"Spark Connect needs more packages: pip install 'pyspark[connect]' ({error})"
        ) from error
    except Exception as error:
        raise JobFailed(f"Spark Connect refuses a session: {reason_of(error)}") from error
    return spark


def make_active(spark: SparkSession) -> None:
    """In this thread: streaming sinks are looked for in its session, of which new ones have none.

    Spark has no word for that alone, but a frame of data that is made does it.
    """
    spark.createDataFrame([], "nothing INT")


def _given(options: SessionOptions) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in options.conf or []]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise InvalidOption(f"--conf {key}: is not KEY=VALUE")
    return {key: value for key, _, value in pairs}
