"""The package pyspark-warren with older Sparks, workers without it, and Spark Connect."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyspark
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from broker_process import free_port
from pyspark_warren.java import ensure_java
from spark.reading import fill
from spark_package import Environment, build_wheel, cached_environment

RECORDS: Final = 20
DRIVER: Final = Path(__file__).with_name("package_driver.py")
SMALL_JAVA: Final = "-XX:TieredStopAtLevel=1 -Xmx700m"
READY_WITHIN_S: Final = 120.0
Places = dict[str, str]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ensure_java()
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def places(
    channel: BlockingChannel, stream: str, http_url: str, amqp_url: str, tmp_path: Path
) -> Iterator[Places]:
    target = f"{stream}-target"
    channel.queue_declare(target, durable=True)
    fill(channel, stream, range(RECORDS))
    yield {
        "http": http_url, "amqp": amqp_url, "queue": stream, "target": target,
        "checkpoint": str(tmp_path / "one"), "other checkpoint": str(tmp_path / "other"),
    }  # fmt: skip
    channel.queue_delete(target)


def facts_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The last line that a driver printed."""
    assert done.returncode == 0, done.stdout[-1_000:] + done.stderr[-6_000:]
    facts: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return facts


def check(facts: dict[str, Any]) -> None:
    """The rows are right, whatever it ran on."""
    every = list(range(RECORDS))
    assert facts["rows"] == every
    assert facts["filtered"] == [5, 6, *range(8, RECORDS)]
    assert facts["columns"] == ["offset", "value"]
    assert facts["published"] == every
    assert facts["published again"] == sorted(every * 2)


@pytest.mark.parametrize(("version", "next_version"), [("4.0", "4.1"), ("4.1", "4.2")])
def test_older_versions_of_spark_read_and_publish_and_refuse_limits_by_name(
    wheel: Path, places: Places, version: str, next_version: str
) -> None:
    environment = cached_environment(
        f"pyspark-{version}", f"pyspark>={version},<{next_version}", borrowed=("numpy", "pyarrow")
    )
    environment.install(wheel)
    done = environment.run(
        str(DRIVER), json.dumps({**places, "register": "yes"}), JDK_JAVA_OPTIONS=SMALL_JAVA,
        PYSPARK_PYTHON=str(environment.python),
    )  # fmt: skip
    facts = facts_of(done)
    assert facts["version"].startswith(f"{version}.")
    check(facts)
    assert facts["progress"] is False
    assert "option maxOffsetsPerTrigger: needs pyspark 4.2 or later" in facts["limited"]


def test_workers_without_the_package_are_sent_it(
    wheel: Path, places: Places, tmp_path: Path
) -> None:
    """As the guide has it: the wheel is a zip, which --py-files takes under that name."""
    bare = Environment(tmp_path / "venv")
    assert "No module named 'pyspark_warren'" in bare.run("-c", "import pyspark_warren").stderr
    archive = shutil.copy(wheel, tmp_path / "pyspark_warren.zip")
    submit = [
        str(bare.spark_home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,512]",
        "--conf", "spark.executor.memory=512m", "--py-files", str(archive),
        # Executors here would inherit the driver's, and so not need the file that they are sent.
        "--conf", f"spark.executorEnv.PYTHONPATH={tmp_path / 'nowhere'}",
        str(DRIVER), json.dumps({**places, "register": "yes"}),
    ]  # fmt: skip
    variables = bare.variables(
        PYSPARK_PYTHON=str(bare.python), SPARK_HOME=str(bare.spark_home),
        JDK_JAVA_OPTIONS="-XX:TieredStopAtLevel=1", PYTHONPATH=str(archive),
        SPARK_WORKER_DIR=str(tmp_path / "work"),
    )  # fmt: skip
    done = subprocess.run(
        submit, capture_output=True, text=True, check=False, env=variables, cwd=tmp_path
    )
    facts = facts_of(done)
    check(facts)
    assert facts["progress"] is True
    assert facts["limited"] == ""


def test_source_and_sink_work_through_spark_connect(
    wheel: Path, places: Places, tmp_path: Path
) -> None:
    environment = cached_environment(
        f"connect-{pyspark.__version__}", *connect_requirements(),
        borrowed=("numpy", "pyarrow", "py4j", "pyspark"),
    )  # fmt: skip
    environment.install(wheel)
    with connect_server(environment, tmp_path) as remote:
        done = environment.run(str(DRIVER), json.dumps({**places, "remote": remote}))
    facts = facts_of(done)
    check(facts)
    assert facts["progress"] is True
    assert facts["limited"] == ""


def connect_requirements() -> list[str]:
    """What `pyspark[connect]` asks for, but what is borrowed."""
    required = importlib.metadata.requires("pyspark") or []
    wanted = [text.partition(";")[0].strip() for text in required if 'extra == "connect"' in text]
    return [text for text in wanted if not re.match("numpy|pyarrow|pyspark", text)]


@contextmanager
def connect_server(environment: Environment, directory: Path) -> Iterator[str]:
    """A server of Spark Connect on loopback; gives the address for clients."""
    port = free_port()
    conf = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false", "spark.sql.python.filterPushdown.enabled": "true",
        "spark.driver.memory": "700m",
    }  # fmt: skip
    command = [
        str(environment.spark_home / "bin" / "spark-submit"), "--master", "local[2]",
        *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal",
    ]  # fmt: skip
    variables = environment.variables(
        PYSPARK_PYTHON=str(environment.python), SPARK_HOME=str(environment.spark_home),
        JDK_JAVA_OPTIONS="-XX:TieredStopAtLevel=1",
    )  # fmt: skip
    log = directory / "connect.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, stdout=output, stderr=output, env=variables, cwd=directory
        )
    try:
        deadline = time.monotonic() + READY_WITHIN_S
        while "Spark Connect server started" not in log.read_text():
            assert server.poll() is None, log.read_text()[-3_000:]
            assert time.monotonic() < deadline, log.read_text()[-3_000:]
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
