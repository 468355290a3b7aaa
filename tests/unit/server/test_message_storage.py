"""Opening the messages of a virtual host when the disk does not play along."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from index_world import PERSISTENT
from warren.server import message_storage
from warren.server.data_directory import DataDirectoryError
from warren.server.message_storage import MessageStorage
from warren.storage.disk.layout import vhost_directory
from warren.wire.codec import Message, QueuedMessage

FAULTS = [
    pytest.param("make_directory", "", id="directories"),
    pytest.param("open", "0.rdq", id="a spare file of the message store"),
    pytest.param("append", "1.rdq", id="what that begins with"),
    pytest.param("place", ".jif", id="the journal"),
    pytest.param("append", ".draft", id="whose files they are"),
]


@pytest.mark.parametrize(("operation", "on"), FAULTS)
async def test_no_space_is_said_with_what_to_do_and_leaves_nothing_behind(
    tmp_path: Path, operation: str, on: str
) -> None:
    disk = FaultyDisk()
    storage = MessageStorage(tmp_path, disk)
    disk.fail(operation, errno.ENOSPC, on=on)
    with pytest.raises(DataDirectoryError, match=r"No space left on device.*free some space"):
        await storage.open("/")
    assert not disk._open, "files are closed"
    await storage.open("/")  # there is room again
    await storage.close()


@pytest.mark.parametrize("on", [".jif", "checkpoint"])
async def test_what_cannot_be_read_at_a_start_is_not_taken_for_damaged(
    tmp_path: Path, on: str
) -> None:
    first = MessageStorage(tmp_path)
    await first.open("/")
    await first.close()
    disk = FaultyDisk()
    disk.fail("read", errno.EIO, on=on)
    storage = MessageStorage(tmp_path, disk)
    with pytest.raises(DataDirectoryError, match=r"Input/output error.*start again"):
        await storage.open("/")
    await storage.open("/")
    assert not storage.vhosts["/"].index.findings.checkpoint_problem
    await storage.close()


async def test_a_start_that_takes_long_says_what_it_is_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(message_storage, "PROGRESS_S", 0.01)
    caplog.set_level("INFO")
    first = MessageStorage(tmp_path)
    await first.open("/")
    queue = first.vhosts["/"].index.queue("q")
    for number in range(100):
        queue.publish(QueuedMessage(Message(b"\0\1q", PERSISTENT, b"body"), number, 0))
    await first.close()
    assert "messages recovered" not in caplog.text, "there was nothing"
    disk = FaultyDisk()
    disk.sync_delay_s = 0.05
    second = MessageStorage(tmp_path, disk)
    await second.open("/")
    await second.close()
    assert "recovering messages" in caplog.messages
    (end,) = [record for record in caplog.records if record.message == "messages recovered"]
    assert end.facts["messages"] == 100  # type: ignore[attr-defined]
    assert end.facts["after"] == "a clean stop"  # type: ignore[attr-defined]


async def test_a_virtual_host_that_comes_while_a_node_stops_is_not_opened(tmp_path: Path) -> None:
    storage = MessageStorage(tmp_path)
    await storage.open("/")
    opening = asyncio.ensure_future(storage.open("under way"))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(storage.close())
    await asyncio.sleep(0)
    await storage.open("too late")
    await asyncio.gather(opening, closing)
    assert not storage.vhosts
    assert not vhost_directory(tmp_path, "too late").exists()
