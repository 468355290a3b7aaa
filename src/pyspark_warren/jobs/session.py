"""The Spark session of a job that runs as a command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pyspark_warren.errors import InvalidOption
from pyspark_warren.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Spark says while it starts and runs is for whoever asks for it, by `--conf spark.log.level`.
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_DEFAULTS: Final = {
    "spark.log.level": "ERROR",
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
        typer.Option(
            envvar="WARREN_SPARK_MASTER",
            help="local[N], spark://HOST:PORT, yarn, k8s://...: where Spark runs.",
        ),
    ] = "local[*]"
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be given several times."),
    ] = None


def make_session(name: str, options: SessionOptions) -> SparkSession:
    """Raises InvalidOption for a setting that is none."""
    from pyspark.sql import SparkSession

    from pyspark_warren.worker_python import use_this_python

    ensure_java()
    use_this_python(is_local=options.master.startswith("local"))
    settings = {**_DEFAULTS, **_given(options)}
    if options.master.startswith("local"):
        settings.setdefault("spark.driver.host", "127.0.0.1")
        settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
    builder = SparkSession.builder.master(options.master).appName(f"warren {name}")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _given(options: SessionOptions) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in options.conf or []]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise InvalidOption(f"--conf {key}: is not KEY=VALUE")
    return {key: value for key, _, value in pairs}
