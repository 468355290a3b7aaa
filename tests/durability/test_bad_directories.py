"""Data directories that cannot be used: one clear message with what to do, nothing overwritten.

A start that is refused leaves everything as it was, so that the operator can put right what is
wrong and start again; each test does that, and finds all its messages.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from acceptance.actions import eventually
from broker_process import BrokerProcess
from durability.conftest import MakeBroker
from durability.data_files import DataFiles, snapshot
from durability.disk_faults import DiskFaults
from durability.mail import bodies, declare_in, look_once, numbered, send
from warren.storage.disk.checksum import crc32c

pytestmark = pytest.mark.warren_only

REFUSED_WITHIN_S = 60
# What a message must have besides what is wrong: something to do.
ADVICE = ("start", "restore", "choose", "move", "make", "copy", "free", "remove", "use ")
SENT = numbered(5000, size=100) + numbered(20, size=20_000, start=5000)
# So that there are segments without writing for long.
SMALL_JOURNAL = "warren.journal_file_size_limit = 256KB\n"
LATER = numbered(200, size=1000, start=6000) + numbered(5, size=20_000, start=6200)


@pytest.fixture
def filled(make_broker: MakeBroker) -> BrokerProcess:
    """A broker that is down, with messages in journal, segments and store."""
    broker = make_broker(SMALL_JOURNAL)
    broker.options = ["--name", "first@host"]
    broker.start()
    declare_in(broker, "kept")
    files = DataFiles(broker.data_dir)
    send(broker, SENT, "kept")
    eventually((files.directory / "checkpoint").exists)
    send(broker, LATER, "kept")
    broker.kill()
    assert files.journals
    assert files.segments
    assert files.bodies
    return broker


def refused(broker: BrokerProcess) -> str:
    """Start it, see that it gives up by itself, and return the one message it leaves."""
    before = len(broker.log())
    process = broker.launch()
    try:
        code = process.wait(REFUSED_WITHIN_S)
    except subprocess.TimeoutExpired:
        broker.kill()
        raise AssertionError(f"it started, or hangs:\n{broker.log()[before:]}") from None
    log = broker.log()[before:]
    errors = [line for line in log.splitlines() if line.startswith("Error: ")]
    assert code not in {0, None}
    assert code > 0, f"ended by signal {-code}"
    assert "Traceback" not in log, log
    assert len(errors) == 1, log
    assert any(word in errors[0] for word in ADVICE), f"it does not say what to do: {errors[0]}"
    return errors[0]


def assert_all_there(broker: BrokerProcess) -> None:
    broker.start()
    assert bodies(look_once(broker, "kept")) == SENT + LATER


def test_the_directory_of_another_node(filled: BrokerProcess) -> None:
    """Its name is in the directory: under another name the messages would be another node's."""
    before = snapshot(filled.data_dir)
    filled.options = ["--name", "second@host"]
    message = refused(filled)
    assert "first@host" in message
    assert "second@host" in message
    assert snapshot(filled.data_dir) == before
    filled.options = ["--name", "first@host"]
    assert_all_there(filled)


def test_a_directory_in_use(filled: BrokerProcess, make_broker: MakeBroker) -> None:
    """By a broker that runs: the second one says so, and the first one is not disturbed."""
    filled.start()
    second = make_broker()
    second.options = ["--name", "first@host", "--data-dir", str(filled.data_dir)]
    assert "in use" in refused(second)
    assert bodies(look_once(filled, "kept")) == SENT + LATER


def newer(path: Path, offset: int, header_bytes: int) -> bytes:
    """The file with a format number from the future and a checksum that agrees."""
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, offset, 99)
    end = header_bytes or len(data)
    struct.pack_into("<I", data, end - 4, crc32c(bytes(data[: end - 4])))
    return bytes(data)


NEWER: list[tuple[str, Callable[[DataFiles], Path], int, int]] = [
    # A kill may have come before the newest journal file had its header.
    ("journal", lambda files: [path for path in files.journals if path.stat().st_size][-1], 8, 32),
    ("store", lambda files: files.bodies[-1], 4, 20),
    ("checkpoint", lambda files: files.directory / "checkpoint", 8, 0),
]


@pytest.mark.parametrize(
    ("find", "offset", "header_bytes"), [pytest.param(*case[1:], id=case[0]) for case in NEWER]
)
def test_a_newer_format(
    filled: BrokerProcess, find: Callable[[DataFiles], Path], offset: int, header_bytes: int
) -> None:
    """What a later version wrote is not guessed at: it is named, with its version."""
    path = find(DataFiles(filled.data_dir))
    original = path.read_bytes()
    path.write_bytes(newer(path, offset, header_bytes))
    before = snapshot(filled.data_dir)
    message = refused(filled)
    assert path.name in message
    assert "99" in message
    assert snapshot(filled.data_dir) == before
    path.write_bytes(original)
    assert_all_there(filled)


MISSING: list[tuple[str, Callable[[DataFiles], list[Path]]]] = [
    ("the journal", lambda files: files.journals),
    ("a segment", lambda files: files.segments[:1]),
    ("all segments", lambda files: files.segments),
    ("a store file", lambda files: files.bodies[:1]),
]


@pytest.mark.parametrize("find", [pytest.param(case[1], id=case[0]) for case in MISSING])
def test_a_half_copied_backup(
    filled: BrokerProcess, find: Callable[[DataFiles], list[Path]]
) -> None:
    """Files that the others speak of are missing: better no broker than one without messages."""
    missing = find(DataFiles(filled.data_dir))
    aside = filled.log_path.parent / "aside"
    aside.mkdir()
    for number, path in enumerate(missing):
        shutil.move(path, aside / str(number))
    before = snapshot(filled.data_dir)
    message = refused(filled)
    names = {path.name for path in missing} | {path.parent.name for path in missing}
    assert any(name in message for name in names), message
    assert snapshot(filled.data_dir) == before
    for number, path in enumerate(missing):
        shutil.move(aside / str(number), path)
    assert_all_there(filled)


def test_metadata_without_messages(filled: BrokerProcess) -> None:
    """The whole directory of messages is missing, though there are durable queues."""
    stores = filled.data_dir / "msg_stores"
    aside = filled.log_path.parent / "aside"
    shutil.move(stores, aside)
    message = refused(filled)
    assert "msg_stores" in message
    assert not any(stores.rglob("*.*"))
    shutil.rmtree(stores, ignore_errors=True)
    shutil.move(aside, stores)
    assert_all_there(filled)


def test_messages_without_metadata(filled: BrokerProcess) -> None:
    """Nobody knows what queues they are in, and without queues they would be deleted."""
    aside = filled.log_path.parent / "aside"
    aside.mkdir()
    moved = list(filled.data_dir.glob("metadata.sqlite*"))
    assert moved
    for path in moved:
        shutil.move(path, aside)
    before = snapshot(filled.data_dir)
    assert "metadata.sqlite" in refused(filled)
    assert snapshot(filled.data_dir) == before
    for path in moved:
        shutil.move(aside / path.name, path)
    assert_all_there(filled)


def test_what_is_left_can_be_had_by_doing_as_it_says(filled: BrokerProcess) -> None:
    """A segment is gone for good: the operator decides to go on without it."""
    DataFiles(filled.data_dir).segments[0].unlink()
    checkpoint = refused(filled).rpartition("remove ")[2]
    Path(checkpoint).unlink()
    filled.start()
    assert bodies(look_once(filled, "kept")) == (SENT + LATER)[2048:]


def test_empty_queues_can_be_had_by_doing_as_it_says(filled: BrokerProcess) -> None:
    shutil.rmtree(filled.data_dir / "msg_stores")
    refused(filled)
    DataFiles(filled.data_dir).directory.mkdir(parents=True)
    filled.start()
    assert look_once(filled, "kept") == []


def spoil(broker: BrokerProcess) -> DiskFaults:
    faults = DiskFaults(broker.log_path.parent / "faults", broker.data_dir)
    broker.environment = faults.environment
    return faults


@pytest.mark.parametrize("is_first_start", [True, False])
def test_a_read_only_disk(
    filled: BrokerProcess, make_broker: MakeBroker, is_first_start: bool
) -> None:
    """Nothing can be written, so nothing can be promised."""
    broker = make_broker() if is_first_start else filled
    broker.data_dir.mkdir(exist_ok=True)
    before = snapshot(broker.data_dir)
    faults = spoil(broker)
    faults.read_only()
    message = refused(broker)
    assert str(broker.data_dir) in message
    assert faults.hits()
    assert snapshot(broker.data_dir) == before
    faults.clear()
    if not is_first_start:
        assert_all_there(broker)


def test_message_files_that_are_read_only(filled: BrokerProcess) -> None:
    """Only the messages' part of the directory, as after a copy under another user."""
    before = snapshot(filled.data_dir)
    faults = spoil(filled)
    faults.read_only("/msg_stores")
    assert "msg_stores" in refused(filled)
    assert faults.hits()
    assert snapshot(filled.data_dir) == before
    faults.clear()
    assert_all_there(filled)


@pytest.mark.parametrize("part", ["/", "/msg_stores"])
@pytest.mark.parametrize("is_first_start", [True, False])
def test_no_space_at_start(
    filled: BrokerProcess, make_broker: MakeBroker, part: str, is_first_start: bool
) -> None:
    """A full disk: it says so, and nothing is cut short to make room."""
    broker = make_broker() if is_first_start else filled
    broker.data_dir.mkdir(exist_ok=True)
    before = snapshot(broker.data_dir)
    faults = spoil(broker)
    faults.no_space(part=part)
    message = refused(broker)
    assert "space" in message.lower()
    assert faults.hits("write")
    after = snapshot(broker.data_dir)
    assert {path: after.get(path) for path in before} == before
    faults.clear()
    if not is_first_start:
        assert_all_there(broker)
    else:
        broker.start()


def test_something_else_in_the_way(make_broker: MakeBroker) -> None:
    """A file where a directory must be: it is named, and left alone."""
    broker = make_broker()
    broker.data_dir.mkdir()
    obstacle = broker.data_dir / "msg_stores"
    obstacle.write_text("not a directory")
    assert "msg_stores" in refused(broker)
    assert obstacle.read_text() == "not a directory"
    obstacle.unlink()
    broker.start()
