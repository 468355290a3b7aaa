"""Kills a broker under load again and again, and looks at what it has left each time.

    python -m durability.torture --kills 300 --seed 1 [--minutes 30] [--power] [--keep DIRECTORY]

A round: clients publish, consume, purge and delete; after a random moment the broker is killed, or
sometimes stopped; sometimes its next start is killed too; then it is started, within a few seconds,
and every queue is compared with the ledger (ledger.py says what is promised). With `--power` every
second kill is a power cut. The seed gives the load and the moments; threads do what they like, so
a seed repeats a run nearly and not exactly.

Files are mostly kept so small that they roll, are compacted and scattered all the time, and queues
are paged out from the first message on; how often that happened is told in the end (activity.py).
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from acceptance.raw_client import ConnectionEnded, RawClient
from acceptance.raw_methods import Method, decode_method
from broker_process import BrokerProcess
from durability.activity import Activity
from durability.data_files import DataFiles
from durability.disk_faults import MESSAGE_FILES, DiskFaults
from durability.ledger import Delivery, Ledger
from durability.load import (
    AGEING,
    QUEUES,
    SHORT,
    SHORT_LENGTH,
    declare_all,
    method_of,
    receive_delivery,
)
from durability.load_clients import make_clients
from durability.power_cut import Tape, cut_power
from durability.under_test import IS_REFERENCE, TOPOLOGY_SAFE_AFTER_S

READY_WITHIN_S: Final = 90.0
LOAD_S_MAX: Final = 1.2
OWED_MAX: Final = 5000
FILES_CHANCE: Final = 0.4
ASKED_CHANCE: Final = 0.3
# RabbitMQ forgets after a clean stop which messages were delivered since.
CLEAN_CHANCE: Final = 0.0 if IS_REFERENCE else 0.15
KILLED_START_CHANCE: Final = 0.3
RECOVERY_WITHIN_S: Final = 60.0
ANSWERED_WITHIN_S: Final = 60.0
MIB: Final = 2**20

# Settings change from start to start: what one of them wrote, the next must be able to read.
SETTINGS: Final = {
    "msg_store_file_size_limit": ["64KiB", "256KiB", "1MiB", "16MiB"],
    "warren.journal_file_size_limit": ["64KiB", "256KiB", "1MiB", "16MiB"],
    "queue_index_embed_msgs_below": ["500", "3800", "4096"],
    "vm_memory_high_watermark_paging_ratio": ["0.00001", "0.5"],
}


class TortureFailed(AssertionError):
    """The broker broke a promise; the text says which, and where to look."""


@dataclass
class Round:
    number: int
    end: str = ""
    load_s: float = 0.0
    moment: str = "load"
    killed_starts: int = 0
    ready_s: float = 0.0
    unfinished: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        starts = f", {self.killed_starts} starts killed" if self.killed_starts else ""
        unfinished = f" (in a {', a '.join(sorted(self.unfinished))})" if self.unfinished else ""
        return (
            f"round {self.number}: {self.end}{unfinished} after {self.load_s:.2f} s of "
            f"{self.moment}{starts}, ready in {self.ready_s:.2f} s"
        )


class Torture:
    def __init__(self, directory: Path, seed: int, has_power_cuts: bool = False) -> None:
        self.directory = directory
        self.seed = seed
        self.chance = random.Random(seed)
        self.ledger = Ledger(length_limits={SHORT: SHORT_LENGTH})
        self.kills = 0
        self.slowest_start_s = 0.0
        self.paged_out_most = 0
        self.keeps_evidence = False
        self.broker = BrokerProcess(directory, config=self._settings())
        self.activity = Activity(self.broker.log_path)
        self._files = DataFiles(self.broker.data_dir)
        self._faults = DiskFaults(directory / "faults", self.broker.data_dir)
        self._tape = Tape(MESSAGE_FILES, loses_names=not IS_REFERENCE)
        self._has_power_cuts = has_power_cuts
        self._rounds = 0
        if has_power_cuts:
            self.broker.environment = self._faults.recording

    def run(self, kills: int, seconds: float) -> None:
        """Until that many kills or that much time; it may be called again to go on."""
        print(f"seed {self.seed}, data in {self.directory}", flush=True)
        deadline = time.monotonic() + seconds
        self.broker.start()
        try:
            with RawClient(self.broker.address).open() as client:
                declare_all(client)
            time.sleep(TOPOLOGY_SAFE_AFTER_S)
            while self.kills < kills and time.monotonic() < deadline:
                self._rounds += 1
                print(f"{self._round(self._rounds)}, {self._state()}", flush=True)
        finally:
            self.broker.kill()
            self.ledger.crashed()

    def summary(self) -> str:
        ledger = self.ledger
        return (
            f"{self.kills} kills, {ledger.confirmed} messages confirmed, none lost; "
            f"{ledger.delivered} delivered, {ledger.settled} acknowledgements known to be on the "
            f"disk, none undone; slowest start {self.slowest_start_s:.2f} s\n{self.activity}; "
            f"at most {self.paged_out_most} messages seen out of memory"
        )

    def _state(self) -> str:
        return f"{self.ledger.owed} messages, {self._files.total_bytes() // MIB} MiB"

    def _fail(self, happened: Round, problems: list[str]) -> None:
        if problems:
            details = "\n".join(problems)
            raise TortureFailed(
                f"{happened}\nseed {self.seed}, data in {self.directory} (as they were "
                f"before the last start: before-the-start)\n{details}\n"
                f"--- the end of its log\n{self.broker.log()[-3000:]}"
            )

    def _settings(self) -> str:
        """For one life of the broker."""
        if IS_REFERENCE:
            return ""
        chosen = {key: self.chance.choice(values) for key, values in SETTINGS.items()}
        lines = (f"{key} = {value}" for key, value in chosen.items())
        return "\n".join([*lines, "log.console.level = debug", ""])

    def _round(self, number: int) -> Round:
        happened = Round(number)
        self._load_and_end(happened)
        is_safe = happened.end != "kill" or not self._has_power_cuts
        if self.chance.random() < KILLED_START_CHANCE:
            self._kill_a_start(happened)
        self._keep_evidence()
        self.broker.configure(self._settings())
        began = time.monotonic()
        self.broker.start()
        happened.ready_s = time.monotonic() - began
        self.slowest_start_s = max(self.slowest_start_s, happened.ready_s)
        if happened.ready_s > READY_WITHIN_S:
            self.ledger.problems.append(f"it took more than {READY_WITHIN_S} s to get ready")
        try:
            with RawClient(self.broker.address).open() as client:
                declare_all(client)
                for queue in QUEUES:
                    found = self._look(client, queue)
                    self.ledger.inspect(queue, list(found.values()), is_safe)
                    self._fail(happened, self.ledger.problems)
                    self._thin(client, queue, found)
        except (ConnectionEnded, OSError) as end:
            self._fail(happened, [f"the broker does not answer as it should: {end!r}"])
        return happened

    def _keep_evidence(self) -> None:
        """The files as they are before a start changes them, until the next one."""
        if self.keeps_evidence:
            copy = self.directory / "before-the-start"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(self.broker.data_dir, copy)

    def _load_and_end(self, happened: Round) -> None:
        clients = make_clients(self.broker.address, self.ledger, self.chance, happened.number)
        for client in clients:
            client.start()
        began = time.monotonic()
        happened.moment = self._await_a_moment()
        happened.load_s = time.monotonic() - began
        if self.broker.has_ended:
            self._fail(happened, ["the broker ended by itself"])
        self._count_paged_out()
        if self.chance.random() < CLEAN_CHANCE:
            happened.end = "clean stop"
            self.broker.stop()
        else:
            happened.end = self._kill()
        happened.unfinished = self.activity.ended(happened.end != "clean stop")
        for client in clients:
            client.join()
        failures = [f"{c.name}: {c.failure!r}" for c in clients if c.failure]
        self._fail(happened, failures + self.ledger.problems)

    def _count_paged_out(self) -> None:
        """Now and then: it takes a while, and kills should come at any moment."""
        if not IS_REFERENCE and self.chance.random() < ASKED_CHANCE:
            queues = self.broker.ask("/api/queues")
            paged_out = sum(queue.get("messages_paged_out", 0) for queue in queues)
            self.paged_out_most = max(self.paged_out_most, paged_out)

    def _await_a_moment(self) -> str:
        """Any, or while files are made and removed: that is when most can go wrong."""
        time.sleep(self.chance.uniform(0.02, LOAD_S_MAX))
        if self.chance.random() >= FILES_CHANCE:
            return "load"
        before = self._files.names()
        deadline = time.monotonic() + 2 * LOAD_S_MAX
        while self._files.names() == before and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(self.chance.uniform(0, 0.04))
        return "load and a change of files"

    def _kill(self) -> str:
        self.broker.kill()
        self.kills += 1
        self.ledger.crashed()
        if not self._has_power_cuts:
            return "kill"
        self._tape.play(self._faults.tape)
        if self.chance.random() < 0.5:
            return "kill"
        done = cut_power(self._tape, self.chance)
        shutil.rmtree(self._faults.trash)
        self._faults.trash.mkdir()
        with (self.directory / "power-cuts").open("a") as notes:
            notes.write("\n".join([*done, "--", ""]))
        return f"power cut ({len(done)} files)"

    def _kill_a_start(self, happened: Round) -> None:
        process = self.broker.launch()
        if not IS_REFERENCE:
            deadline = time.monotonic() + RECOVERY_WITHIN_S
            while "recovery" not in self.activity.under_way() and time.monotonic() < deadline:
                time.sleep(0.001)
        time.sleep(self.chance.uniform(0, 8.0 if IS_REFERENCE else 0.2))
        if process.poll() is not None:
            self._fail(happened, ["the broker ended during its start"])
        self.broker.kill()
        self.activity.ended(is_killed=True)
        self.kills += 1
        happened.killed_starts += 1

    def _look(self, client: RawClient, queue: str) -> dict[int, Delivery]:
        """All of it, taken by the channel, by delivery tag."""
        count = client.call(1, "queue.declare", queue=queue, passive=True).message_count
        found: dict[int, Delivery] = {}
        client.send(1, "basic.consume", queue=queue, consumer_tag=queue)
        self._receive_until(client, "basic.consume-ok", found)
        deadline = time.monotonic() + ANSWERED_WITHIN_S
        while len(found) < count:
            client.send(1, "queue.declare", queue=queue, passive=True)
            left = self._receive_until(client, "queue.declare-ok", found).message_count
            if queue == AGEING and left == 0:  # messages expire while we look
                break
            if time.monotonic() > deadline:
                self.ledger.problems.append(f"{queue}: {len(found)} of {count} came")
                break
        client.send(1, "basic.cancel", consumer_tag=queue)
        self._receive_until(client, "basic.cancel-ok", found)
        return found

    @staticmethod
    def _receive_until(client: RawClient, name: str, found: dict[int, Delivery]) -> Method:
        """The answer of that name; what is delivered before it goes to `found`."""
        while method_of(frame := client.receive(ANSWERED_WITHIN_S)) != name:
            assert method_of(frame) == "basic.deliver", frame
            tag = decode_method(frame.payload).delivery_tag
            found[tag] = receive_delivery(client, frame, ANSWERED_WITHIN_S)
        return decode_method(frame.payload)

    def _thin(self, client: RawClient, queue: str, found: dict[int, Delivery]) -> None:
        """Acknowledge some, so that queues do not grow for ever; the rest is ready again."""
        share = self.chance.choice([0.0, 0.1, 0.3, 1.0])
        if len(found) > OWED_MAX / len(QUEUES):
            share = self.chance.choice([0.7, 1.0])
        for tag, delivery in found.items():
            if self.chance.random() < share:
                self.ledger.acknowledge(queue, [delivery.id])
                client.send(1, "basic.ack", delivery_tag=tag)
        client.send(1, "basic.recover", requeue=True)
        while method_of(client.receive(ANSWERED_WITHIN_S)) != "basic.recover-ok":
            pass


def main() -> int:
    parser = argparse.ArgumentParser(prog="torture", description="Kill a broker under load.")
    parser.add_argument("--kills", type=int, default=20, help="stop after so many kills")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--minutes", type=float, default=60.0, help="or after so much time")
    parser.add_argument("--power", action="store_true", help="make every second one a power cut")
    parser.add_argument("--keep", type=Path, help="where to work, and to leave everything")
    options = parser.parse_args()
    directory = options.keep or Path(tempfile.mkdtemp(prefix="torture-"))
    directory.mkdir(parents=True, exist_ok=True)
    torture = Torture(directory, options.seed, options.power)
    torture.keeps_evidence = True
    try:
        torture.run(options.kills, options.minutes * 60)
    except AssertionError as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    print(torture.summary())
    if not options.keep:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
