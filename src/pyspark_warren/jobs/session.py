"""The Spark session of a job that runs as a command."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pyspark_warren.errors import InvalidOption
from pyspark_warren.java import ensure_quiet_java
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.queries import JobFailed, reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Spark says while it starts and runs is for who asks for it: --conf spark.log.level=INFO.
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_MASTERS: Final = re.compile(
    r"local(\[[\w*]+(,\s*\d+)?\])?|local-cluster\[.+\]|spark://.+|yarn|k8s://.+"
)
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
            help="local[N], spark://HOST:PORT, yarn, k8s://...: where Spark runs.",
        ),
    ] = "local[*]"
    conf: Annotated[
        list[str] | None,
        Parameter(metavar="KEY=VALUE", help="A setting of Spark; may be given several times."),
    ] = None

    def check(self) -> None:
        """Raises InvalidOption for a master that Spark has not, and for a setting that is none."""
        if not _MASTERS.fullmatch(self.master):
            raise InvalidOption(
                f"option master: {self.master!r} is none of local[N], spark://HOST:PORT, yarn, "
                "k8s://..."
            )
        _given(self)


def make_session(name: str, options: SessionOptions) -> SparkSession:
    """Raises InvalidOption for a setting that is none, JobFailed if Spark does not start."""
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
