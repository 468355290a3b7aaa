"""Which records are still wanted, after a start.

**What there is.** The checkpoint's state, true for one instant T: files with sizes and deaths, and
where moved records are. What happened after T: the survey's newcomers, and the journal, which the
index replays. Every publish entry it finds is `seen` here, every ack `died`.

**Records older than T** have all their references. They lose one for each death, in the state or
replayed.

**Newcomers** have as many as were seen. Their headers tell how many were meant, but if the power
went between writing the body and writing the entry, or some of the entries, nobody will ever
acknowledge the rest. What was meant and not seen counts as dead, so nothing is kept for ever.

**Copies** that compaction made after T lead to the question whether they are needed. As long as the
file they were made from is there, they are not. If it is gone, the copy takes over its home, with
the deaths the state knows of the original: a copy carries the references its original was written
with, so deaths before and after the copying need not be told apart.

Without a state all records are newcomers, and the index reports what it finds in segments as well.
"""

from __future__ import annotations

from array import array
from collections import Counter

from warren.storage.bodies.forwarding import Place
from warren.storage.bodies.store_files import REFERENCE_WEIGHT, StoreFile
from warren.storage.bodies.store_survey import Newcomers, Survey


class Recovery:
    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.has_loose_ends = bool(survey.newcomers)
        self.lost: dict[int, int] = {}  # how many messages, by the missing file they were in
        self._is_finished = False
        self._adopted: dict[Place, tuple[Newcomers, int]] = {}
        self._inherited: set[Place] = set()  # copies that have the references of the original
        self._rescued: Counter[int] = Counter()  # references, by the file they were rescued from
        for newcomers in sorted(survey.newcomers.values(), key=lambda n: n.file.number):
            self._adopt_copies(newcomers)

    def seen(self, file: int, offset: int) -> bool:
        """An entry names this record; whether it is there. Only newcomers count how often."""
        self.survey.next_number = max(self.survey.next_number, file + 1)
        found = self._newcomer(file, offset)
        if found is not None:
            if (file, offset) not in self._inherited:
                self._count(file, offset, *found)
            return True
        place = self._place(file, offset)
        is_there = place is not None and self._is_known(place)
        self.has_loose_ends |= not is_there
        return is_there

    def died(self, file: int, offset: int, size: int) -> None:
        found = self._newcomer(file, offset)
        if found is not None:
            newcomers, index = found
            newcomers.live[index] = max(newcomers.live[index] - 1, 0)
            return
        place = self._place(file, offset)
        if place is None or not (self._is_known(place) or self._was_known(place)):
            return  # it was dead when it was compacted, or never reached the disk
        self.survey.forwarding.bury(file, offset)
        here = self.survey.files.get(place[0]) or self.survey.missing[place[0]]
        if here.is_dead:
            self._complain(file, offset, "more acknowledgements than references")
        else:
            here.bury(place[1], size)

    def missed(self, file: int) -> None:
        """A message that is wanted is not there: damaged with its file, or missing with it."""
        is_moved = any(home[0] == file for home in self._adopted)
        if file not in self.survey.files and not is_moved:
            self.lost[file] = self.lost.get(file, 0) + 1

    def finish(self) -> None:
        """Settle what is wanted; once, however often called."""
        if self._is_finished:
            return
        self._is_finished = True
        for newcomers in self.survey.newcomers.values():
            _settle(newcomers)
        for home, (newcomers, index) in self._adopted.items():
            if newcomers.live[index]:
                place = (newcomers.file.number, newcomers.offsets[index])
                self.survey.forwarding.put(home, place, newcomers.live[index])
        for file in self.survey.missing.values():
            lost = file.references - len(file.deaths) - self._rescued[file.number]
            if lost > 0:
                self.lost[file.number] = lost + self.lost.get(file.number, 0)
                self.survey.problems.append(f"{file.number}.rdq is gone, with {lost} messages")

    def _adopt_copies(self, newcomers: Newcomers) -> None:
        deaths: dict[int, Counter[int]] = {}
        for index, home in newcomers.homes.items():
            origin = self.survey.forwarding.resolve(*home) or home
            if home in self._adopted or origin[0] in self.survey.files:
                continue
            self._adopted[home] = (newcomers, index)
            self.survey.forwarding.forget(home)
            if self._was_known(origin):
                missing = self.survey.missing[origin[0]]
                if missing.number not in deaths:
                    deaths[missing.number] = Counter(missing.deaths)
                died = deaths[missing.number][origin[1]]
                newcomers.live[index] = max(newcomers.references[index] - died, 0)
                self._inherited.add(home)
                self._rescued[missing.number] += newcomers.live[index]

    def _count(self, file: int, offset: int, newcomers: Newcomers, index: int) -> None:
        if newcomers.live[index] < newcomers.references[index]:
            newcomers.live[index] += 1
        else:
            self._complain(file, offset, "more entries than references")

    def _newcomer(self, file: int, offset: int) -> tuple[Newcomers, int] | None:
        adopted = self._adopted.get((file, offset))
        if adopted is not None:
            return adopted
        newcomers = self.survey.newcomers.get(file)
        index = -1 if newcomers is None else newcomers.find(offset)
        return None if newcomers is None or index < 0 else (newcomers, index)

    def _place(self, file: int, offset: int) -> Place | None:
        if file in self.survey.files or file in self.survey.missing:
            return file, offset
        return self.survey.forwarding.resolve(file, offset)

    def _is_known(self, place: Place) -> bool:
        """Whether the checkpoint had this record and its file is here."""
        file = self.survey.files.get(place[0])
        if file is None:
            return False
        newcomers = self.survey.newcomers.get(place[0])
        return place[1] < (file.size if newcomers is None else newcomers.start)

    def _was_known(self, place: Place) -> bool:
        missing = self.survey.missing.get(place[0])
        return missing is not None and place[1] < missing.size

    def _complain(self, file: int, offset: int, what: str) -> None:
        self.survey.problems.append(f"{file}.rdq, offset {offset}: {what}")


def _settle(newcomers: Newcomers) -> None:
    """What was meant and not seen is dead."""
    file: StoreFile = newcomers.file
    deaths = array("I")
    for index, references in enumerate(newcomers.references):
        size = newcomers.body_bytes[index]
        file.add(references, size)
        dead = references - newcomers.live[index]
        if dead:
            deaths.extend([newcomers.offsets[index]] * dead)
            file.dead_weight += dead * (size + REFERENCE_WEIGHT)
    file.deaths.extend(deaths)
    assert len(file.deaths) <= file.references
