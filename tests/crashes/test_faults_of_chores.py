"""Faults that hit only what is done in the background: copying to segments, checkpoints, garbage.

No publisher waits for these, so nobody is told no. What was confirmed is where it was before, the
work is tried again, elsewhere, and the log says so.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from acceptance.actions import eventually
from broker_process import BrokerProcess
from durability.conftest import MakeBroker
from durability.data_files import DataFiles, size_bytes
from durability.disk_faults import MESSAGE_FILES, DiskFaults
from durability.mail import (
    acknowledge,
    bodies,
    client_of,
    declare_in,
    look,
    look_once,
    look_until_quiet,
    numbered,
    requeue_all,
    send,
)
from durability.power_cut import Tape, cut_power

SMALL_FILES = """
msg_store_file_size_limit = 64KiB
warren.journal_file_size_limit = 64KiB
log.console.level = debug
"""
LARGE = 9_000
DONE_WITHIN_S = 60.0

pytestmark = pytest.mark.warren_only
Faulty = tuple[BrokerProcess, DiskFaults]


@pytest.fixture
def ailing(make_broker: MakeBroker) -> Faulty:
    """A running broker with small files, and all that it does to its disk on tape."""
    broker = make_broker(SMALL_FILES)
    faults = DiskFaults(broker.log_path.parent / "faults", broker.data_dir)
    broker.environment = faults.recording
    broker.start()
    declare_in(broker, "q")
    return broker, faults


def lose_power(broker: BrokerProcess, faults: DiskFaults, chance: random.Random) -> None:
    broker.kill()
    faults.clear()
    tape = Tape(MESSAGE_FILES)
    tape.play(faults.tape)
    print("\n".join(cut_power(tape, chance)))
    broker.start()


def checkpoints(broker: BrokerProcess) -> int:
    return broker.log().count("checkpoint finished")


SYNC_FAILS = f"sync {{part}} errno={errno.EIO} count=2"
NO_ROOM = f"write {{part}} errno={errno.ENOSPC} count=2"
HALF_A_WRITE = f"write {{part}} bytes=100 errno={errno.ENOSPC} count=2"


@pytest.mark.parametrize("rule", [SYNC_FAILS, NO_ROOM, HALF_A_WRITE])
@pytest.mark.parametrize("part", [".idx", "/checkpoint"])
def test_a_checkpoint_that_fails_is_made_again(
    ailing: Faulty, chance: random.Random, part: str, rule: str
) -> None:
    """Publishers are confirmed meanwhile, and a power cut afterwards takes nothing."""
    broker, faults = ailing
    faults.rule(rule.format(part=part))
    before = checkpoints(broker)
    sent = numbered(600, size=300)
    send(broker, sent, "q")
    eventually(lambda: faults.hits() != [], DONE_WITHIN_S)
    eventually(lambda: checkpoints(broker) > before, DONE_WITHIN_S)
    assert "maintenance of the queue index failed, will be retried" in broker.log()
    more = numbered(600, size=300, start=600)
    send(broker, more, "q")
    lose_power(broker, faults, chance)
    assert bodies(look_once(broker, "q")) == sent + more


@pytest.mark.parametrize("rule", [SYNC_FAILS, NO_ROOM])
def test_a_compaction_that_fails_loses_nothing(
    ailing: Faulty, chance: random.Random, rule: str
) -> None:
    """Its sources stay; what is published meanwhile is answered truthfully."""
    broker, faults = ailing
    sent = numbered(60, size=LARGE)
    for start in range(0, len(sent), 4):
        send(broker, sent[start : start + 4], "q")
    before = size_bytes(DataFiles(broker.data_dir).bodies)
    faults.rule(rule.format(part=".rdq"))
    with client_of(broker) as client:
        for number, mail in enumerate(look(client, "q")):
            if number % 4:
                acknowledge(client, mail)
        requeue_all(client, "q", 15)
    eventually(lambda: faults.hits() != [], DONE_WITHIN_S)
    eventually(lambda: "compaction failed" in broker.log(), DONE_WITHIN_S)
    faults.clear()
    more = numbered(20, size=LARGE, start=60)
    send(broker, more, "q")
    assert bodies(look_once(broker, "q")) == sent[::4] + more
    lose_power(broker, faults, chance)
    assert bodies(look_once(broker, "q")) == sent[::4] + more
    eventually(lambda: size_bytes(DataFiles(broker.data_dir).bodies) < before, DONE_WITHIN_S)


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def behead(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("harm", [halve, behead])
@pytest.mark.parametrize("kind", ["segment", "body"])
def test_a_file_that_lost_its_end_costs_what_was_in_it(
    ailing: Faulty, kind: str, harm: Callable[[Path], None], is_clean: bool
) -> None:
    """The broker starts, says which file, and delivers all that others hold, in order."""
    broker, _ = ailing
    if kind == "segment":
        sent = numbered(5000, size=100)
        send(broker, sent, "q")
        eventually(lambda: len(DataFiles(broker.data_dir).segments_of("q")) >= 2, DONE_WITHIN_S)
    else:
        sent = numbered(60, size=LARGE)
        for start in range(0, len(sent), 4):
            send(broker, sent[start : start + 4], "q")
    broker.stop() if is_clean else broker.kill()
    files = DataFiles(broker.data_dir)
    victim = files.segments_of("q")[0] if kind == "segment" else files.bodies[1]
    lost = {body for body in sent if body in victim.read_bytes()}
    harm(victim)
    before = len(broker.log())
    broker.start()
    found = bodies(look_until_quiet(broker, "q"))
    assert found == [body for body in sent if body in set(found)]
    assert set(sent) - lost <= set(found)
    assert set(sent) - set(found), "the harm was done to a file that nobody needs"
    complaints = [line for line in broker.log()[before:].splitlines() if "[error]" in line]
    assert any(victim.name in line for line in complaints), complaints
    send(broker, [b"afterwards"], "q")
    broker.kill()
    broker.start()
    assert bodies(look_until_quiet(broker, "q"))[-1] == b"afterwards"
