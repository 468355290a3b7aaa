"""What the cluster has promised its clients, and whether it has kept that.

Every change is noted before it is asked for, as open; an answer settles it. What got no answer, or
an error, may have happened or may happen yet, so nothing is expected of that name any more and
nobody uses it again. All else has to be as it was answered, on every node and in etcd:

1. what was declared with an `ok`, and not deleted since, is there;
2. what was deleted with an `ok` is not;
3. a confirmed persistent message on a durable queue was delivered or is there;
4. nothing comes that was never published, and of a message that comes more than once all copies
   but one are marked as redelivered. (Which of them a client has read first proves nothing.)
5. what is not marked is newer than all that this channel has had of the same publisher (`order`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

PROBLEMS_MAX: Final = 30

Thing: TypeAlias = tuple[str, ...]
"""Such as ("queue", "name")."""


class Expectations:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        self.is_calm = False
        """Nothing is being done that could excuse an error at a client."""
        self.may_nack = True
        """Something is being done that may cost all good copies of a queue."""
        self._lock = threading.Lock()
        self._present: dict[Thing, bool | None] = {}
        self._published: set[str] = set()
        self._confirmed: set[str] = set()
        self._received: Counter[str] = Counter()
        self._received_as_new: set[str] = set()

    def complain(self, problem: str) -> None:
        with self._lock:
            if len(self.problems) < PROBLEMS_MAX and problem not in self.problems:
                self.problems.append(problem)

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    # Things.

    @contextmanager
    def changing(self, things: Iterable[Thing], is_there: bool) -> Iterator[None]:
        """Answered if the block ends without an exception."""
        things = list(things)
        with self._lock:
            self._present.update(dict.fromkeys(things))
        yield
        with self._lock:
            self._present.update(dict.fromkeys(things, is_there))
            self.counts["changes answered"] += 1

    def is_expected(self, thing: Thing) -> bool:
        with self._lock:
            return bool(self._present.get(thing))

    def broken(self, found: set[Thing]) -> Iterator[str]:
        with self._lock:
            present = dict(self._present)
        for thing, is_there in present.items():
            if is_there is True and thing not in found:
                yield f"{thing} was declared ok and is lost"
            elif is_there is False and thing in found:
                yield f"{thing} was deleted ok and is there"

    # Mail.

    def published(self, id_: str) -> None:
        """It is about to be."""
        with self._lock:
            self._published.add(id_)

    def confirmed(self, id_: str) -> None:
        with self._lock:
            self._confirmed.add(id_)
            self.counts["confirmed"] += 1

    def received(self, id_: str, is_redelivered: bool) -> None:
        with self._lock:
            self.counts["received"] += 1
            self._received[id_] += 1
            is_known = id_ in self._published
            is_twice = not is_redelivered and id_ in self._received_as_new
            if not is_redelivered:
                self._received_as_new.add(id_)
        if not is_known:
            self.complain(f"message {id_} came, and was never published")
        if is_twice:
            self.complain(f"message {id_} came again, and is not marked as redelivered")

    def backlog(self) -> int:
        """About how many messages are waiting."""
        return len(self._confirmed) - len(self._received)

    def missing(self) -> list[str]:
        """Confirmed and never seen; to be asked when all queues have been emptied."""
        with self._lock:
            return sorted(self._confirmed - self._received.keys())
