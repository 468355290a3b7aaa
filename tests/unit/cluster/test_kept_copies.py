"""Kept copies: a copy outside its group stays on the disk as long as the group counts on it."""

from __future__ import annotations

import pytest

from machine_world import NAME, UID, group_on
from warren.cluster.kept_copies import KeptCopies
from warren.replication.group_record import GroupRecord


class Files:
    def __init__(self) -> None:
        self.is_deleted = False

    def delete(self) -> None:
        self.is_deleted = True


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def kept(files: Files) -> KeptCopies:
    copies = KeptCopies("a")
    copies.keep(NAME, UID, {0: files})
    return copies


@pytest.mark.parametrize(
    ("group", "is_recoverable"),
    [
        (None, False),
        (group_on("bc"), False),
        (group_on("bc", recoverable=("b", "a")), True),
        (group_on("ba", insync="a", recoverable=()), True),
    ],
)
def test_a_copy_is_recoverable_if_the_record_names_this_node(
    group: GroupRecord | None, is_recoverable: bool
) -> None:
    assert KeptCopies("a").is_recoverable(group) is is_recoverable


def test_a_copy_of_the_group_that_asks_for_it_is_taken_once(kept: KeptCopies, files: Files) -> None:
    assert kept.names() == [NAME]
    assert kept.take(NAME, UID) == {0: files}
    assert kept.take(NAME, UID) == {}
    assert not files.is_deleted


def test_a_copy_of_an_earlier_queue_of_that_name_is_deleted(kept: KeptCopies, files: Files) -> None:
    """Its numbers say nothing in another group."""
    assert kept.take(NAME, "another") == {}
    assert files.is_deleted


@pytest.mark.parametrize(
    "group",
    [None, group_on("bc"), group_on("ba", uid="another")],
    ids=["group ended", "not recoverable", "another group"],
)
def test_a_copy_is_deleted_when_its_group_does_not_count_on_it_any_more(
    kept: KeptCopies, files: Files, group: GroupRecord | None
) -> None:
    kept.changed(NAME, group)
    assert files.is_deleted
    assert kept.names() == []


def test_a_copy_is_kept_while_its_group_counts_on_it(kept: KeptCopies, files: Files) -> None:
    kept.changed(NAME, group_on("bc", recoverable=("b", "c", "a")))
    kept.changed(("/", "other"), None)
    assert kept.names() == [NAME]
    assert not files.is_deleted


def test_a_copy_without_files_is_none(kept: KeptCopies) -> None:
    kept.keep(("/", "empty"), UID, {})
    assert kept.names() == [NAME]
