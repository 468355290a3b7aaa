"""Files that a crash or a bad disk left damaged: as little as possible is lost, and it is said.

All of it is done to the files while the broker is down.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from acceptance.actions import eventually
from broker_process import BrokerProcess
from durability.conftest import MakeBroker
from durability.data_files import DataFiles, end_of_data, holder_of
from durability.mail import (
    bodies,
    client_of,
    declare_in,
    look_once,
    look_until_quiet,
    more_than_a_journal,
    numbered,
    ready,
    send,
)
from durability.under_test import TOPOLOGY_SAFE_AFTER_S, kill

COUNT = 20
LARGE = 10_000
PAGED_WITHIN_S = 60


def cut(path: Path, count: int) -> None:
    """The last bytes of what was written are missing."""
    os.truncate(path, end_of_data(path) - count)


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def flip(path: Path, offset: int) -> None:
    byte = path.read_bytes()[offset]
    overwrite(path, offset, bytes([byte ^ 0x10]))


def one_by_one(broker: BrokerProcess, sent: list[bytes], queue: str) -> None:
    """Each confirmed before the next, so that each is a write of its own."""
    for body in sent:
        send(broker, [body], queue)


@pytest.fixture
def sent(mortal: BrokerProcess) -> list[bytes]:
    """Twenty small messages in the queue `torn` of a broker that was killed."""
    declare_in(mortal, "torn")
    time.sleep(TOPOLOGY_SAFE_AFTER_S)
    sent = numbered(COUNT)
    one_by_one(mortal, sent, "torn")
    mortal.kill()  # at once, before the reference broker moves them out of its journal
    return sent


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.warren_only), 10, 60])
def test_a_torn_record_takes_only_itself(
    mortal: BrokerProcess, sent: list[bytes], count: int
) -> None:
    """S10: the last record of the journal is incomplete: all before it survive."""
    cut(DataFiles(mortal.data_dir).live_journal(), count)
    mortal.start()
    assert bodies(look_once(mortal, "torn")) == sent[:-1]


def zeros(path: Path) -> None:
    overwrite(path, end_of_data(path), bytes(500))


def noise(path: Path) -> None:
    overwrite(path, end_of_data(path), bytes(range(255, 5, -1)) * 3)


def half_of_the_last_again(path: Path) -> None:
    end = end_of_data(path)
    overwrite(path, end, path.read_bytes()[end - 70 : end - 20])


@pytest.mark.parametrize(
    "damage",
    [
        zeros,
        pytest.param(noise, marks=pytest.mark.warren_only),
        pytest.param(half_of_the_last_again, marks=pytest.mark.warren_only),
    ],
)
def test_what_follows_the_last_record_is_cut_off(
    mortal: BrokerProcess, sent: list[bytes], damage: Callable[[Path], None]
) -> None:
    """S10: a write that got nowhere takes nothing along, and the next ones go where it was."""
    damage(DataFiles(mortal.data_dir).live_journal())
    mortal.start()
    assert bodies(look_once(mortal, "torn")) == sent
    later = numbered(5, start=COUNT)
    one_by_one(mortal, later, "torn")
    mortal.kill()
    mortal.start()
    assert bodies(look_once(mortal, "torn")) == sent + later


@pytest.mark.warren_only
def test_a_garbled_last_record_is_not_delivered(mortal: BrokerProcess, sent: list[bytes]) -> None:
    """S10: its length is right and its bytes are wrong: a checksum tells."""
    journal = DataFiles(mortal.data_dir).live_journal()
    flip(journal, end_of_data(journal) - 30)
    mortal.start()
    assert bodies(look_once(mortal, "torn")) == sent[:-1]


@pytest.mark.warren_only
def test_a_flipped_bit_in_the_journal_is_reported(mortal: BrokerProcess, sent: list[bytes]) -> None:
    """What was before it survives, nothing false is delivered, and the log names the file."""
    journal = DataFiles(mortal.data_dir).live_journal()
    flip(journal, journal.read_bytes().index(sent[10]) + 50)
    before = len(mortal.log())
    mortal.start()
    found = bodies(look_once(mortal, "torn"))
    assert found[:10] == sent[:10]
    assert found == [body for body in sent if body in found]
    assert sent[10] not in found
    assert_reported(mortal.log()[before:], journal.name)


def assert_reported(log: str, name: str) -> None:
    complaints = [line for line in log.splitlines() if "[warning]" in line or "[error]" in line]
    assert any(name in line for line in complaints), complaints


@pytest.mark.warren_only
def test_a_journal_that_was_only_begun(mortal: BrokerProcess, sent: list[bytes]) -> None:
    """Killed between making a file and writing to it: an empty one is no reason to stop."""
    journal = DataFiles(mortal.data_dir).live_journal()
    journal.with_name(f"{int(journal.stem) + 1}.jif").touch()
    mortal.start()
    assert bodies(look_once(mortal, "torn")) == sent


def test_a_torn_body_takes_only_its_message(mortal: BrokerProcess) -> None:
    """The last body in the store is incomplete: its message is gone, all others survive."""
    declare_in(mortal, "large")
    sent = numbered(COUNT, size=LARGE)
    one_by_one(mortal, sent, "large")
    kill(mortal)
    cut(holder_of(DataFiles(mortal.data_dir).bodies, sent[-1]), 100)
    mortal.start()
    assert bodies(look_once(mortal, "large")) == sent[:-1]
    later = numbered(5, size=LARGE, start=COUNT)
    one_by_one(mortal, later, "large")
    mortal.kill()
    mortal.start()
    assert bodies(look_once(mortal, "large")) == sent[:-1] + later


@pytest.mark.warren_only
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_flipped_bit_in_a_body_is_reported(mortal: BrokerProcess, is_clean: bool) -> None:
    """Never delivered as if it were right; its neighbours are; the log names the file."""
    declare_in(mortal, "large")
    sent = numbered(COUNT, size=LARGE)
    one_by_one(mortal, sent, "large")
    if is_clean:
        mortal.stop()
    else:
        mortal.kill()
    file = holder_of(DataFiles(mortal.data_dir).bodies, sent[7])
    flip(file, file.read_bytes().index(sent[7]) + LARGE // 2)
    mortal.start()
    found = bodies(look_until_quiet(mortal, "large"))
    assert found == sent[:7] + sent[8:]
    assert_reported(mortal.log(), file.name)


@pytest.mark.warren_only
def test_a_flipped_bit_in_a_segment_is_reported(mortal: BrokerProcess) -> None:
    """One entry of a queue's own files is bad: the others are delivered."""
    declare_in(mortal, "indexed")
    sent = more_than_a_journal()
    send(mortal, sent, "indexed")
    files = DataFiles(mortal.data_dir)
    eventually(lambda: len(files.segments_of("indexed")) > 0)
    mortal.stop()
    holder = holder_of(files.segments, sent[1234])
    flip(holder, holder.read_bytes().index(sent[1234]) + 500)
    mortal.start()
    found = bodies(look_until_quiet(mortal, "indexed"))
    assert found == sent[:1234] + sent[1235:]
    assert_reported(mortal.log(), holder.name)


@pytest.mark.warren_only
@pytest.mark.parametrize("size", [200, LARGE])
def test_a_bit_that_flips_while_the_broker_runs_is_reported(
    make_broker: MakeBroker, size: int
) -> None:
    """A message that is on disk alone, read back for a consumer: only the others are delivered."""
    broker = make_broker("warren.journal_file_size_limit = 64KiB\n")
    broker.start()
    declare_in(broker, "lazy", **{"x-queue-mode": "lazy"})
    sent = numbered(1000, size=size)
    send(broker, sent, "lazy")
    eventually(lambda: broker.ask("/api/queues/%2F/lazy")["messages_ram"] == 0, PAGED_WITHIN_S)
    files = DataFiles(broker.data_dir)
    holder = holder_of(files.segments + files.bodies, sent[700])
    flip(holder, holder.read_bytes().index(sent[700]) + size // 2)
    assert bodies(look_until_quiet(broker, "lazy")) == sent[:700] + sent[701:]
    assert_reported(broker.log(), holder.name)
    with client_of(broker) as client:
        eventually(lambda: ready(client, "lazy") == 999)


@pytest.mark.warren_only
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("damage", ["missing", "empty", "garbled"])
def test_without_its_checkpoint_a_broker_finds_everything(
    mortal: BrokerProcess, damage: str, is_clean: bool
) -> None:
    """It is there for speed: what it says can be found in the other files."""
    declare_in(mortal, "indexed")
    sent = more_than_a_journal() + numbered(10, size=LARGE, start=5000)
    send(mortal, sent, "indexed")
    later = numbered(50, start=5010)
    send(mortal, later, "indexed")
    checkpoint = DataFiles(mortal.data_dir).directory / "checkpoint"
    eventually(checkpoint.exists)
    if is_clean:
        mortal.stop()
    else:
        mortal.kill()
    if damage == "missing":
        checkpoint.unlink()
    elif damage == "empty":
        os.truncate(checkpoint, 0)
    else:
        flip(checkpoint, checkpoint.stat().st_size // 2)
    mortal.start()
    assert bodies(look_once(mortal, "indexed")) == sent + later
