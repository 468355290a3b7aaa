"""The tools of this folder find what they are there to find.

A harness that cannot fail proves nothing: here the ledger is shown brokers that lie, and the
power cut a program that forgets to sync.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from durability.activity import Activity
from durability.data_files import vhost_directory
from durability.disk_faults import DiskFaults
from durability.ledger import Delivery, Ledger, Publication
from durability.power_cut import Tape, cut_power

Case = tuple[list[tuple[int, bool]], str]


def ledger_with(count: int) -> Ledger:
    """Messages 1 to `count` of one producer, confirmed, in the queue q."""
    ledger = Ledger()
    for number in range(1, count + 1):
        publication = Publication("p", number, size=50)
        ledger.publish(publication, ["q"])
        ledger.confirm(publication, ["q"])
    return ledger


def delivery(number: int, redelivered: bool = True, body: bytes | None = None) -> Delivery:
    publication = Publication("p", number, size=50)
    return Delivery(publication.id, publication.body if body is None else body, redelivered)


def test_the_ledger_is_content_with_an_honest_broker() -> None:
    ledger = ledger_with(3)
    ledger.crashed()
    ledger.inspect("q", [delivery(1), delivery(2), delivery(3)], is_safe=True)
    assert ledger.problems == []


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ([delivery(1), delivery(3)], "LOST 1"),
        ([delivery(1), delivery(2), delivery(2), delivery(3)], "twice"),
        ([delivery(1), delivery(3), delivery(2)], "out of order"),
        ([delivery(1), delivery(2, body=b"?"), delivery(3)], "not what was published"),
        ([delivery(1), delivery(2), delivery(3), delivery(4)], "never here"),
        ([delivery(1), delivery(2, redelivered=False), delivery(3)], "not marked"),
    ],
)
def test_the_ledger_sees_lies(found: list[Delivery], problem: str) -> None:
    ledger = ledger_with(3)
    ledger.crashed()
    ledger.inspect("q", found, is_safe=True)
    assert [text for text in ledger.problems if problem in text], ledger.problems


def test_the_ledger_lets_an_acknowledged_message_return_once() -> None:
    ledger = ledger_with(2)
    ledger.acknowledge("q", ["p.1", "p.2"])
    ledger.inspect("q", [delivery(1)], is_safe=True)
    assert ledger.problems == []
    ledger.inspect("q", [delivery(1), delivery(2)], is_safe=True)
    assert "never here" in ledger.problems[0]


def test_the_ledger_sees_an_acknowledgement_undone_that_was_on_the_disk() -> None:
    ledger = ledger_with(2)
    ledger.acknowledge("q", ["p.1", "p.2"])
    ledger.settle("q", "p.2")
    ledger.inspect("q", [delivery(1)], is_safe=False)
    assert ledger.problems == []
    ledger.inspect("q", [delivery(1), delivery(2)], is_safe=False)
    assert "ack was on the disk" in ledger.problems[0]


@pytest.mark.parametrize(
    ("found", "is_right"), [([3, 4], True), ([1, 2, 3, 4], True), ([1, 2], False), ([2, 4], False)]
)
def test_the_ledger_knows_what_a_length_limit_may_drop(found: list[int], is_right: bool) -> None:
    """Room for two: the last two must be there, older ones may."""
    ledger = ledger_with(4)
    ledger.length_limits["q"] = 2
    ledger.inspect("q", [delivery(number) for number in found], is_safe=True)
    assert (ledger.problems == []) is is_right


LOG = """
[debug] recovery started vhost=/
[debug] recovery finished vhost=/
[debug] checkpoint started vhost=/
[debug] segment created path=queues/ABC/0.idx
[debug] compaction started path=persistent files=2
[debug] compaction finished path=persistent
"""


def test_what_a_kill_cut_short_is_counted(tmp_path: Path) -> None:
    """Each life of a broker by itself, though all are in one log."""
    log = tmp_path / "log"
    activity = Activity(log)
    log.write_text(LOG)
    assert activity.ended(is_killed=True) == {"checkpoint"}
    with log.open("a") as file:
        file.write(LOG + "[debug] compaction started path=persistent files=1\n")
    assert activity.under_way() == {"checkpoint", "compaction"}
    assert activity.ended(is_killed=False) == set()
    assert activity.done["compaction"] == 3
    assert activity.done["segment"] == 2
    assert activity.cut_short == {"checkpoint": 1}


def test_the_ledger_owes_nothing_that_was_not_confirmed() -> None:
    ledger = Ledger()
    ledger.publish(Publication("p", 1, size=50), ["q"])
    ledger.inspect("q", [], is_safe=True)
    assert ledger.problems == []


def test_the_ledger_sees_a_second_delivery_that_is_not_marked() -> None:
    ledger = ledger_with(2)
    ledger.deliver("q", delivery(1, redelivered=False))
    ledger.deliver("q", delivery(2, redelivered=False))
    assert ledger.problems == []
    ledger.deliver("q", delivery(1, redelivered=False))
    assert "not marked" in ledger.problems[0]


def test_the_ledger_does_not_miss_what_expired() -> None:
    ledger = Ledger()
    publication = Publication("p", 1, size=50, lifetime_ms=1)
    ledger.publish(publication, ["q"])
    ledger.confirm(publication, ["q"])
    ledger.inspect("q", [], is_safe=True)
    assert ledger.problems == []


WRITER = """
import os, sys
directory, do_sync = sys.argv[1], sys.argv[2] == "sync"
descriptor = os.open(directory + "/file", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(descriptor, b"a" * 10000)
if do_sync:
    os.fdatasync(descriptor)
    parent = os.open(directory, os.O_RDONLY)
    os.fsync(parent)
os.write(descriptor, b"b" * 10000)
"""


@pytest.mark.parametrize("do_sync", [True, False])
def test_a_power_cut_takes_what_was_not_synced(tmp_path: Path, do_sync: bool) -> None:
    """What was synced stays in every case; the rest is lost in some."""
    ends: set[int] = set()
    for number in range(30):
        data = tmp_path / str(number)
        data.mkdir()
        faults = DiskFaults(tmp_path / f"faults-{number}", data)
        arguments = [sys.executable, "-c", WRITER, str(data), "sync" if do_sync else "no"]
        subprocess.run(arguments, env={**os.environ, **faults.recording}, check=True)
        tape = Tape("/")
        tape.play(faults.tape)
        cut_power(tape, random.Random(number))
        file = data / "file"
        content = file.read_bytes() if file.exists() else b""
        if do_sync:
            assert content[:10000] == b"a" * 10000
        ends.add(content.count(b"b"))
    assert min(ends) == 0
    assert len(ends) >= 3


def test_names_of_directories_are_those_of_the_reference() -> None:
    assert vhost_directory(Path("data")).name == "628WB79CIFDYO9LJI6DKMI09L"
