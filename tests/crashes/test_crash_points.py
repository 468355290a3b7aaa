"""SIGKILL before each step that a broker takes on its files, one after the other.

Kills at random moments mostly hit what takes long. Here the library between the broker and the
kernel (disk_faults.c) ends the process instead of its n-th write, sync, open, rename or removal, so
that any step of a compaction, of a checkpoint and of a start may be the last one: some, by dice,
in each run.
"""

from __future__ import annotations

import contextlib
import random
import time

import pytest

from acceptance.actions import eventually
from acceptance.raw_client import ConnectionEnded
from broker_process import BrokerProcess
from durability.conftest import MakeBroker
from durability.data_files import DataFiles
from durability.disk_faults import DiskFaults
from durability.mail import (
    acknowledge,
    bodies,
    client_of,
    declare_in,
    look,
    look_once,
    numbered,
    ready,
    requeue_all,
    send,
)

SMALL_FILES = """
msg_store_file_size_limit = 64KiB
warren.journal_file_size_limit = 64KiB
log.console.level = debug
"""
LARGE = 9_000
QUIET_S = 0.4
ENDED_WITHIN_S = 60.0
# Not all of them every time: starting a broker takes a while.
STEPS_MAX = 10
STARTS_MAX = 12

pytestmark = pytest.mark.warren_only
Faulty = tuple[BrokerProcess, DiskFaults]


@pytest.fixture
def fragile(make_broker: MakeBroker) -> Faulty:
    """A running broker with small files."""
    broker = make_broker(SMALL_FILES)
    faults = DiskFaults(broker.log_path.parent / "faults", broker.data_dir)
    broker.environment = faults.environment
    broker.start()
    declare_in(broker, "q")
    return broker, faults


def pick(chance: random.Random, count: int) -> list[int]:
    """Some of the numbers below `count`."""
    return sorted(chance.sample(range(count), k=min(count, STEPS_MAX)))


def wait_until_quiet(faults: DiskFaults) -> int:
    """Until nothing is done to the files any more; how many steps were taken."""
    before = -1
    while before != len(faults.hits()):
        before = len(faults.hits())
        time.sleep(QUIET_S)
    return before


def wait_until_killed_or_quiet(broker: BrokerProcess) -> None:
    deadline = time.monotonic() + 3 * QUIET_S
    while not broker.has_ended and time.monotonic() < deadline:
        time.sleep(0.01)


def recover(broker: BrokerProcess, faults: DiskFaults) -> None:
    faults.clear()
    broker.kill()
    broker.start()


def make_holes(broker: BrokerProcess, kept_every: int) -> None:
    """Acknowledge most of what is in the queue, all over it; the rest is ready again."""
    with client_of(broker) as client:
        mails = look(client, "q")
        for number, mail in enumerate(mails):
            if number % kept_every:
                acknowledge(client, mail)
        requeue_all(client, "q", (len(mails) + kept_every - 1) // kept_every)


def purge(broker: BrokerProcess) -> None:
    with client_of(broker) as client:
        client.call(1, "queue.purge", queue="q")
        assert ready(client, "q") == 0


def assert_kept(broker: BrokerProcess, sent: list[bytes], kept_every: int) -> None:
    """Those not acknowledged are there, once and in order; the others are not there twice."""
    found = bodies(look_once(broker, "q"))
    assert found == [body for body in sent if body in set(found)]
    assert set(sent[::kept_every]) <= set(found)


@pytest.mark.timeout(600)
def test_a_compaction_can_be_killed_before_any_step(fragile: Faulty, chance: random.Random) -> None:
    """S9: nothing is lost, nothing comes twice."""
    broker, faults = fragile
    sent = numbered(40, size=LARGE)
    part = "/msg_store_persistent/"

    def fill() -> None:
        purge(broker)
        for start in range(0, len(sent), 4):  # slowly: while no file is ready, the last one grows
            send(broker, sent[start : start + 4], "q")

    fill()
    faults.watch(part)
    make_holes(broker, kept_every=4)
    eventually(lambda: "compaction finished" in broker.log(), ENDED_WITHIN_S)
    steps = wait_until_quiet(faults)
    assert steps > 10, faults.hits()
    killed = 0
    for step in pick(chance, steps):
        fill()
        faults.kill_before(step, part)
        with contextlib.suppress(ConnectionEnded, OSError):
            make_holes(broker, kept_every=4)
        wait_until_killed_or_quiet(broker)
        killed += broker.was_killed
        recover(broker, faults)
        assert_kept(broker, sent, kept_every=4)
    assert killed, "no step was the last one"


@pytest.mark.timeout(600)
def test_a_checkpoint_can_be_killed_before_any_step(fragile: Faulty, chance: random.Random) -> None:
    """What goes on to segments is in them or still in the journal, and never in both."""
    broker, faults = fragile
    files = DataFiles(broker.data_dir)
    faults.watch()
    confirmed = numbered(300, size=300)
    send(broker, confirmed, "q")
    eventually(lambda: "checkpoint finished" in broker.log(), ENDED_WITHIN_S)
    assert files.segments_of("q")
    steps = wait_until_quiet(faults)
    killed = 0
    for step in pick(chance, steps):
        faults.kill_before(step)
        more = numbered(300, size=300, start=len(confirmed))
        with contextlib.suppress(ConnectionEnded, OSError):
            send(broker, more, "q")
            confirmed += more
        wait_until_killed_or_quiet(broker)
        killed += broker.was_killed
        recover(broker, faults)
        found = bodies(look_once(broker, "q"))
        assert found[: len(confirmed)] == confirmed
        assert found == numbered(len(found), size=300)
        confirmed = found  # what came without a confirm is owed from now on
    assert killed, "no step was the last one"


@pytest.mark.timeout(600)
def test_a_start_can_be_killed_before_any_step(fragile: Faulty, chance: random.Random) -> None:
    """Each start finds what the one before left half done, until one is let through."""
    broker, faults = fragile
    small, large = numbered(800, size=300), numbered(60, size=LARGE, start=800)
    send(broker, small + large, "q")
    make_holes(broker, kept_every=3)
    send(broker, [b"afterwards"], "q")
    kept = [*(small + large)[::3], b"afterwards"]
    killed = 0
    broker.kill()
    for number in range(STARTS_MAX):
        faults.kill_before(number * 8 + chance.randrange(8))
        if starts(broker):
            break
        killed += 1
    assert killed > 5
    recover(broker, faults)
    assert bodies(look_once(broker, "q")) == kept


def starts(broker: BrokerProcess) -> bool:
    """Whether it gets ready, and is not killed when it has."""
    try:
        broker.start()
    except AssertionError:
        assert broker.was_killed, broker.log()[-2000:]
        return False
    wait_until_killed_or_quiet(broker)
    return not broker.was_killed
