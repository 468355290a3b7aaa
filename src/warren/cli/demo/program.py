"""Runs the demo: its cluster, its story, Spark if it is there, and the word at the end.

Whatever happens, and if somebody presses Ctrl-C: all processes are ended, each by its id.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import webbrowser
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console

from warren.cli.cluster import EXIT_UNAVAILABLE, CannotRunError, LocalCluster
from warren.cli.demo.load import ReadGate
from warren.cli.demo.screen import Screen
from warren.cli.demo.story import QUEUE, DemoFailed, Story
from warren.client.errors import ConnectionLost

NODES: Final = 3
SPARK_S_MAX: Final = 300.0
EXIT_LOST: Final = 1
EXIT_INTERRUPTED: Final = 130
HOW_TO_HAVE_SPARK: Final = (
    "to read it from Spark: pip install 'warren[spark,jre]', and run this again"
)


@dataclass(frozen=True)
class DemoOptions:
    """What the command line says."""

    seconds: float
    rate: float
    with_spark: bool
    opens_browser: bool
    stays: bool


def run_demo(wishes: DemoOptions) -> int:
    """The exit code: 0 if nothing was lost."""
    console = Console()
    with TemporaryDirectory(prefix="warren-demo-") as directory, Screen(console) as screen:
        try:
            cluster = LocalCluster(Path(directory), NODES, say=screen.tell)
            return _with_cluster(cluster, screen, wishes)
        except CannotRunError as error:
            for line in str(error).splitlines():
                print(f"Error: {line}", file=sys.stderr)
            return EXIT_UNAVAILABLE
        except (DemoFailed, ConnectionLost, TimeoutError) as error:
            screen.tell(f"failed: {error}", "bold red")
            return EXIT_LOST
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED


def _with_cluster(cluster: LocalCluster, screen: Screen, wishes: DemoOptions) -> int:
    try:
        screen.tell("starting etcd and three nodes ...")
        cluster.start()
        if cluster.is_stopping:
            raise KeyboardInterrupt
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
        for node in cluster.nodes:
            screen.tell(f"{node.name}: {node.amqp_url}, page at {node.http_url} (guest / guest)")
        story = Story(cluster, screen, wishes.seconds, wishes.rate)
        screen.tell(f"the ring of the queue, live: {story.page_url}", "bold")
        if wishes.opens_browser:
            webbrowser.open(story.page_url)
        asyncio.run(story.until_all_is_well_again())
        if wishes.with_spark:
            asyncio.run(_read_from_spark(cluster, screen))
        code = _verdict(asyncio.run(story.read_back()), story, screen)
        if wishes.stays:
            screen.tell("the cluster goes on; Ctrl-C ends it")
            signal.pause()
        return code
    finally:
        cluster.stop(signal.SIGKILL)


def _verdict(reading: ReadGate, story: Story, screen: Screen) -> int:
    screen.tell(
        f"read back: {reading.received:,} messages; confirmed {reading.confirmed:,}, "
        f"lost {reading.lost}, twice {reading.duplicates}; gap {story.gap_ms:,.0f} ms",
        "bold red" if reading.lost else "bold green",
    )
    return EXIT_LOST if reading.lost else 0


async def _read_from_spark(cluster: LocalCluster, screen: Screen) -> None:
    if find_spec("pyspark") is None:
        screen.tell(HOW_TO_HAVE_SPARK)
        return
    screen.tell("starting Spark, which takes a few seconds ...")
    urls = ",".join(node.http_url for node in cluster.nodes)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pyspark_warren", urls, QUEUE,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(SPARK_S_MAX):
            out, errors = await process.communicate()
    except TimeoutError:
        raise DemoFailed(f"Spark did not answer within {SPARK_S_MAX:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.returncode != 0:
        print(errors.decode(errors="replace"), file=sys.stderr)
        raise DemoFailed("Spark could not read the queue; above is what it said")
    found = json.loads(out.splitlines()[-1])
    screen.tell(
        f"spark.read.format('warren') of '{QUEUE}': {found['rows']:,} rows, {found['bytes']:,} "
        f"bytes, columns {', '.join(found['columns'])}; the queue is as it was",
        "bold green",
    )
