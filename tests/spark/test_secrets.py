"""Passwords and tokens are nowhere but in the options of who gave them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.management_client import Api
from broker_process import Address, BrokerProcess, free_port
from pyspark_warren.java import ensure_java
from pyspark_warren.options import parse_sink_options, parse_source_options
from spark.reading import declare_stream, fill

DRIVER = Path(__file__).with_name("secrets_driver.py")
PASSWORD = "p4ssw0rd-that-nobody-may-see"
TOKEN = "t0ken-that-nobody-may-see"
SECRETS = (PASSWORD, TOKEN)


def found_in(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def files_with_secrets(directory: Path) -> list[str]:
    """Files that have a secret as it is, whatever else is in them."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [str(path) for path in files if found_in(path.read_bytes().decode(errors="replace"))]


def test_secrets_are_in_no_plan_log_checkpoint_offset_or_error(
    broker: BrokerProcess, channel: BlockingChannel, stream: str, tmp_path: Path
) -> None:
    """A job with a password in its options, with one in the address, and with wrong secrets."""
    api = Api(Address("127.0.0.1", broker.http_port))
    user = {"password": PASSWORD, "tags": "management"}
    api.must(api.put("users", "secretive", body=user))
    permissions = {"configure": ".*", "write": ".*", "read": ".*"}
    api.must(api.put("permissions", "/", "secretive", body=permissions))
    ensure_java()
    fill(channel, stream, range(10))
    target = f"{stream}-target"
    declare_stream(channel, target)
    places = {
        "http": f"http://127.0.0.1:{broker.http_port}",
        "amqp": f"amqp://127.0.0.1:{broker.address.port}",
        "dead": f"127.0.0.1:{free_port()}",
        "directory": str(tmp_path), "queue": stream, "target": target, "user": "secretive",
        "password": PASSWORD, "token": TOKEN,
    }  # fmt: skip
    try:
        done = subprocess.run(
            [sys.executable, str(DRIVER)], input=json.dumps(places),
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
    finally:
        channel.queue_delete(target)
    assert done.returncode == 0, done.stderr[-4_000:]
    assert "== Physical Plan ==" in done.stdout
    assert done.stdout.count("refused: ") == 6, done.stdout
    assert found_in(done.stdout) == []
    assert found_in(done.stderr) == []
    assert [*tmp_path.glob("events/*")], "there is an event log"
    assert [*tmp_path.glob("checkpoint*/offsets/*")], "there are checkpoints"
    assert files_with_secrets(tmp_path) == []
    assert found_in(broker.log()) == []


@pytest.mark.parametrize("how", ["options", "url", "token"])
def test_what_is_printed_of_options_has_no_secrets(how: str) -> None:
    named = {"options": {"user": "me", "password": PASSWORD}, "token": {"token": TOKEN}}
    who = f"me:{PASSWORD}@" if how == "url" else ""
    given = named.get(how, {})
    source = parse_source_options({"url": f"http://{who}a", "queue": "q", **given})
    sink = parse_sink_options({"url": f"amqp://{who}a", **given})
    assert found_in(f"{source!r} {sink!r} {source.endpoints[0]} {sink.endpoints[0].who}") == []
