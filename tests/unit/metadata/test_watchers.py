"""Watchers of a metadata store: who is told, and what becomes of one that fails."""

from __future__ import annotations

from collections.abc import Sequence

from warren.metadata.store import Change, Record
from warren.metadata.view import Effects, Entry
from warren.metadata.watchers import KEYS_NAMED_MAX, Watchers


def put(*keys: str) -> Effects:
    return [(key, Entry(Record(key, b"", 1), 0)) for key in keys]


class Faults:
    def __init__(self) -> None:
        self.seen: list[tuple[str, BaseException]] = []

    def __call__(self, change: str, error: BaseException) -> None:
        self.seen.append((change, error))


def test_a_fault_names_the_change_and_the_exception() -> None:
    faults = Faults()
    watchers = Watchers(faults)
    error = KeyError("x")

    def fail(_: Sequence[Change]) -> None:
        raise error

    watchers.add(fail)
    watchers.tell([*put("queue/a"), ("queue/b", None)])
    assert faults.seen == [("queue/a, queue/b (deleted)", error)]


def test_a_fault_of_a_large_change_counts_what_it_does_not_name() -> None:
    faults = Faults()
    watchers = Watchers(faults)
    watchers.add(lambda _: {}["missing"])
    watchers.tell(put(*map(str, range(KEYS_NAMED_MAX + 3))))
    ((change, error),) = faults.seen
    assert change == "0, 1, 2, 3, 4, and 3 more"
    assert isinstance(error, KeyError)


def test_a_watcher_that_failed_is_told_nothing_more_and_the_others_are() -> None:
    faults = Faults()
    watchers = Watchers(faults)
    called: list[str] = []

    def fail(changes: Sequence[Change]) -> None:
        called.append(f"broken: {changes[0].key}")
        raise ValueError

    cancel = watchers.add(fail)
    watchers.add(lambda changes: called.append(f"sound: {changes[0].key}"))
    watchers.tell(put("a"))
    watchers.tell(put("b"))
    assert called == ["broken: a", "sound: a", "sound: b"]
    assert [change for change, _ in faults.seen] == ["a"]
    cancel()
