"""Copies that quorum queues want: by their arguments, or as an operator chose."""

from __future__ import annotations

import pytest

from warren.model.fields import Field, Table
from warren.model.records import QueueRecord
from warren.policy.quorum_queues import copies_wished, is_quorum
from warren.policy.wanted_copies import Mirroring, MirrorMode, nodes_for_masters

ALL = {"ha-mode": "all"}


def queue(kind: str = "quorum", size: int | None = None) -> QueueRecord:
    arguments = [("x-queue-type", Field("S", kind.encode()))]
    if size is not None:
        arguments.append(("x-quorum-initial-group-size", Field("I", size)))
    return QueueRecord("/", "q", arguments=Table(arguments))


def wished(**changes: object) -> Mirroring:
    return Mirroring(  # type: ignore[arg-type]
        **{
            "mode": MirrorMode.EXACTLY,
            "is_sync_automatic": True,
            "promotes_unsynced_on_failure": False,
            "is_kept_by_old_master": True,
            **changes,
        }
    )


@pytest.mark.parametrize(("size", "count"), [(None, 3), (1, 1), (5, 5)])
def test_there_are_as_many_copies_as_the_argument_says_or_three(
    size: int | None, count: int
) -> None:
    assert copies_wished(queue(size=size), {}) == wished(count=count)


def test_no_policy_says_where_copies_of_a_quorum_queue_are() -> None:
    assert copies_wished(queue(), ALL) == copies_wished(queue(), {})


def test_the_nodes_that_were_chosen_are_what_is_wanted() -> None:
    found = copies_wished(queue(size=5), ALL, ("a", "b"), batch_default=7)
    assert found == wished(mode=MirrorMode.NODES, nodes=("a", "b"), sync_batch_size=7)


@pytest.mark.parametrize("kind", ["classic", "stream"])
def test_other_queues_go_by_their_policy(kind: str) -> None:
    assert not is_quorum(queue(kind).arguments)
    assert copies_wished(queue(kind), {}) is None
    assert copies_wished(queue(kind), ALL, ("a",)) == Mirroring(MirrorMode.ALL)


def test_a_leader_may_be_on_any_node_that_runs() -> None:
    assert nodes_for_masters(copies_wished(queue(), {}), ["a", "b"]) == ["a", "b"]
