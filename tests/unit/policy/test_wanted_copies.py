"""Which nodes should hold copies: the tables of RabbitMQ's dynamic_ha suite, and their edges."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from warren.policy.wanted_copies import (
    SYNC_BATCH_DEFAULT,
    Copies,
    Mirroring,
    MirrorMode,
    mirroring_of,
    wanted_copies,
)

ABC = ["a", "b", "c"]


def first(nodes: Sequence[str], count: int) -> Sequence[str]:
    return nodes[:count]


def want(
    mirroring: Mirroring, present: str, synced: str = "", running: Sequence[str] = tuple("abcd")
) -> str:
    """Copies as a word: the master's letter, then those of the mirrors."""
    copies = wanted_copies(
        mirroring, Copies(present[0], tuple(present[1:])), list(synced), running, first
    )
    return copies.master + "".join(copies.mirrors)


ALL = Mirroring(MirrorMode.ALL)


@pytest.mark.parametrize(("present", "wanted"), [("a", "abc"), ("abc", "abc"), ("ad", "abc")])
def test_4_01_all_means_every_running_node(present: str, wanted: str) -> None:
    assert want(ALL, present, running=ABC) == wanted


def nodes(listed: str) -> Mirroring:
    return Mirroring(MirrorMode.NODES, nodes=tuple(listed))


@pytest.mark.parametrize(
    ("present", "synced", "wanted"), [("ab", "b", "abc"), ("ba", "a", "bac"), ("ad", "d", "abc")]
)
def test_4_02_nodes_that_are_listed_are_added(present: str, synced: str, wanted: str) -> None:
    assert want(nodes("abc"), present, synced) == wanted


def test_4_03_listed_nodes_that_do_not_run_are_passed_over() -> None:
    assert want(nodes("abf"), "ab", "b") == "ab"
    assert want(nodes("fgh"), "ab", "b") == "a"


@pytest.mark.parametrize("present", ["a", "ab"])
def test_4_04_the_master_stays_while_nobody_is_in_sync(present: str) -> None:
    assert want(nodes("bc"), present) == "abc"


def test_a_master_that_is_not_called_running_and_has_nobody_in_sync_stays() -> None:
    """Its session has ended, and it has heard of that before all else."""
    assert want(nodes("ab"), "cb", running=tuple("ab")) == "cab"


@pytest.mark.parametrize("listed", ["bc", "cb"])
def test_4_05_the_master_moves_to_a_listed_node_in_sync(listed: str) -> None:
    assert want(nodes(listed), "ab", "b") == "bc"


def test_4_12_it_moves_to_the_one_that_is_listed_not_to_the_first_in_sync() -> None:
    assert want(nodes("c"), "abc", "bc") == "c"


def test_4_14_the_master_stays_while_nobody_listed_is_in_sync() -> None:
    """[A,B] to [C,D] with B in sync: one hand-over, when C or D has everything."""
    assert want(nodes("cd"), "ab", "b") == "acd"
    assert want(nodes("cd"), "acd", "d") == "dc"


def exactly(count: int) -> Mirroring:
    return Mirroring(MirrorMode.EXACTLY, count=count)


@pytest.mark.parametrize(
    ("count", "present", "wanted"),
    [
        (2, "a", "ab"),
        (3, "a", "abc"),
        (2, "ac", "ac"),
        (3, "ac", "acb"),
        (2, "acd", "ac"),
        (3, "acd", "acd"),
        (1, "ab", "a"),
        (9, "a", "abcd"),
    ],
)
def test_4_06_exactly_so_many_the_oldest_first(count: int, present: str, wanted: str) -> None:
    assert want(exactly(count), present) == wanted


def test_without_a_mode_nothing_else_counts() -> None:
    assert mirroring_of({"ha-sync-mode": "automatic"}) is None
    assert mirroring_of({}) is None


def test_the_defaults_are_those_of_rabbitmq() -> None:
    assert mirroring_of({"ha-mode": "all"}) == Mirroring(
        MirrorMode.ALL,
        is_sync_automatic=False,
        sync_batch_size=SYNC_BATCH_DEFAULT,
        promotes_unsynced_on_shutdown=False,
        promotes_unsynced_on_failure=True,
    )


def test_a_policy_may_say_it_all() -> None:
    assert mirroring_of(
        {
            "ha-mode": "nodes",
            "ha-params": ["a", "b"],
            "ha-sync-mode": "automatic",
            "ha-sync-batch-size": 5,
            "ha-promote-on-shutdown": "always",
            "ha-promote-on-failure": "when-synced",
        }
    ) == Mirroring(MirrorMode.NODES, 0, ("a", "b"), True, 5, True, False)


def test_batches_of_one_mean_the_default() -> None:
    found = mirroring_of({"ha-mode": "exactly", "ha-params": 2, "ha-sync-batch-size": 1})
    assert found == Mirroring(MirrorMode.EXACTLY, count=2)
