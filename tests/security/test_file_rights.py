"""Files of a node are the broker's alone, whatever umask it was started with."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.management_client import Api
from broker_process import Address, BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Started by a shell whose umask lets everybody in."""
    broker = BrokerProcess(tmp_path)
    wrapped = tmp_path / "warren-for-everybody"
    wrapped.write_text(f'#!/bin/sh\numask 0\nexec {broker.command} "$@"\n')
    wrapped.chmod(0o755)
    broker.command = str(wrapped)
    yield broker
    broker.stop()


def rights_of(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): f"{stat.S_IMODE(path.stat().st_mode):04o}"
        for path in (directory, *directory.rglob("*"))
    }


def fill(broker: BrokerProcess) -> None:
    """Make each kind of file: index, message store, stream, key of sessions."""
    api = Api(Address("127.0.0.1", broker.http_port))
    for name, arguments in (("q", {}), ("s", {"x-queue-type": "stream"})):
        api.must(api.put("queues", "/", name, body={"durable": True, "arguments": arguments}))
        for size in (10, 20_000):
            body = {
                "routing_key": name, "payload": "p" * size, "payload_encoding": "string",
                "properties": {"delivery_mode": 2},
            }  # fmt: skip
            api.must(api.post("exchanges", "/", "amq.default", "publish", body=body))


def test_nobody_else_can_read_what_a_node_keeps(broker: BrokerProcess) -> None:
    broker.start()
    fill(broker)
    broker.restart()
    rights = rights_of(broker.data_dir)
    assert len(rights) > 10
    assert rights["metadata.sqlite"] == "0600"
    assert {name: mode for name, mode in rights.items() if not mode.endswith("00")} == {}


def test_a_directory_of_an_older_version_is_closed_at_the_next_start(broker: BrokerProcess) -> None:
    broker.start()
    broker.stop()
    broker.data_dir.chmod(0o755)
    (broker.data_dir / "metadata.sqlite").chmod(0o644)
    broker.start()
    rights = rights_of(broker.data_dir)
    assert (rights["."], rights["metadata.sqlite"]) == ("0750", "0600")
    assert "closed to other users" in broker.log()
