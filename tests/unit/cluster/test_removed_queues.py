"""What is known of queues that were removed, and when another of the same name may begin."""

from __future__ import annotations

from warren.cluster.removed_queues import REMOVED_MAX, RemovedQueues
from warren.metadata.keys import exchange_key, queue_key, vhost_key
from warren.metadata.store import Change, Record


def removal(name: str, vhost: str = "/") -> Change:
    return Change(queue_key(vhost, name), None)


def test_a_name_that_was_never_removed_counts_from_the_start() -> None:
    removed = RemovedQueues(7)
    assert removed.revision_of(queue_key("/", "q")) == 7


def test_the_last_removal_counts() -> None:
    removed = RemovedQueues(7)
    assert removed.note([removal("q"), removal("other", "v")], 9) == {"/", "v"}
    removed.note([removal("q")], 12)
    assert removed.revision_of(queue_key("/", "q")) == 12
    assert removed.revision_of(queue_key("v", "other")) == 9
    assert removed.revision_of(queue_key("v", "q")) == 7


def test_what_is_put_or_is_no_queue_is_not_noted() -> None:
    removed = RemovedQueues(7)
    key = queue_key("/", "q")
    put = Change(key, Record(key, b"", 9))
    assert removed.note([put, Change(exchange_key("/", "q"), None)], 9) == set()
    assert removed.revision_of(key) == 7


def test_a_virtual_host_that_was_removed_is_not_known() -> None:
    removed = RemovedQueues(7)
    assert removed.note([Change(vhost_key("v"), None)], 9) == {"v"}
    assert removed.revision_of(queue_key("v", "q")) is None
    assert removed.revision_of(queue_key("/", "q")) == 7


def test_of_names_that_are_forgotten_the_last_removal_counts() -> None:
    removed = RemovedQueues(0)
    for number in range(REMOVED_MAX + 3):
        removed.note([removal(f"q{number}")], 10 + number)
    assert removed.revision_of(queue_key("/", "q0")) == 12
    assert removed.revision_of(queue_key("/", "never")) == 12
    assert removed.revision_of(queue_key("/", "q3")) == 13
