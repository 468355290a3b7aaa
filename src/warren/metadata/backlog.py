"""Who waits for the writer, in order, and which keys are not to be touched meanwhile. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Set
from dataclasses import dataclass
from typing import Final, Protocol

from warren.metadata.store import Lease
from warren.metadata.view import Effects, Transaction

# A batch is one stretch of work for the loop, when it is judged and when it is applied: long enough
# to make the commit cheap, short enough for messages to keep moving.
BATCH_TRANSACTIONS_MAX: Final = 128


class Answer(Protocol):
    """What is needed of a future."""

    def done(self) -> bool: ...
    def cancelled(self) -> bool: ...
    def set_result(self, result: bool, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


@dataclass(slots=True)
class Submission:
    """A transaction, or the end of a lease, on its way to the writer and back."""

    work: Transaction | Lease
    answer: Answer
    effects: Effects | None = None


class Backlog:
    """Submissions are *held* from the call until they are settled, queued for a part of that."""

    def __init__(self) -> None:
        self._waiting: deque[Submission] = deque()
        self._held_keys: Counter[str] = Counter()
        self._held_ends = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def is_idle(self) -> bool:
        return not self._held_keys and not self._held_ends

    def is_free(self, keys: Set[str]) -> bool:
        """Nothing held could notice a change of these keys, nor they a change by it."""
        return not self._held_ends and self._held_keys.keys().isdisjoint(keys)

    def hold(self, submission: Submission) -> None:
        if isinstance(submission.work, Lease):
            self._held_ends += 1
        else:
            self._held_keys.update(submission.work.keys)

    def release(self, submission: Submission) -> None:
        if isinstance(submission.work, Lease):
            self._held_ends -= 1
            return
        for key in submission.work.keys:
            self._held_keys[key] -= 1
            if not self._held_keys[key]:
                del self._held_keys[key]

    def append(self, submission: Submission) -> None:
        self._waiting.append(submission)

    def pop_batch(self) -> list[Submission]:
        """Those to commit together; whoever was cancelled before is left out.

        The end of a lease goes alone: it needs no disk and must not fail along with those who do.
        """
        batch: list[Submission] = []
        while self._waiting and len(batch) < BATCH_TRANSACTIONS_MAX:
            is_end = isinstance(self._waiting[0].work, Lease)
            if is_end and batch:
                break
            submission = self._waiting.popleft()
            if submission.answer.cancelled() and not is_end:
                self.release(submission)
                continue
            batch.append(submission)
            if is_end:
                break
        return batch
