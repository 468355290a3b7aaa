"""What `rebalance` would move (cases 4-19 and 4-20)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from warren.policy.rebalancing import MasterSeen, candidates_of, plan_moves
from warren.policy.wanted_copies import Mirroring, MirrorMode

NODES = ("a", "b", "c")
FIVE = [
    MasterSeen("/", f"q{i}", "a", messages, NODES) for i, messages in enumerate((5, 3, 0, 0, 0), 1)
]


def test_4_19_no_node_keeps_more_than_its_share_and_the_fullest_queues_stay() -> None:
    moves = plan_moves(FIVE, NODES)
    assert sorted(move.queue for move in moves) == ["q3", "q4", "q5"]
    assert Counter(move.node for move in moves) == {"b": 2, "c": 1}


def test_4_20_only_nodes_that_the_policy_admits_get_masters() -> None:
    candidates = candidates_of(nodes("a", "b"), ["b"], NODES)
    listed = [replace(master, candidates=candidates) for master in FIVE]
    moves = plan_moves(listed, NODES)
    assert {move.node for move in moves} == {"b"}
    assert sorted(move.queue for move in moves) == ["q3", "q4"], "no more than fit there"


def nodes(*names: str) -> Mirroring:
    return Mirroring(MirrorMode.NODES, nodes=names)


def test_nodes_with_a_mirror_come_first_and_those_out_of_service_never() -> None:
    exactly = Mirroring(MirrorMode.EXACTLY, count=2)
    assert candidates_of(exactly, ["c"], NODES) == ("c", "a", "b")
    assert candidates_of(exactly, ["c"], ("a", "b")) == ("a", "b")
    assert candidates_of(Mirroring(MirrorMode.ALL), ["b", "c"], NODES) == ("b", "c", "a")


def test_a_queue_that_is_to_have_one_copy_is_not_replicated() -> None:
    assert candidates_of(Mirroring(MirrorMode.EXACTLY, count=1), [], NODES) == ()


def test_there_is_nothing_to_move_where_nobody_takes_part() -> None:
    assert plan_moves(FIVE, ()) == []


@given(st.lists(st.tuples(st.sampled_from(NODES), st.integers(0, 9)), max_size=30))
def test_queues_that_may_be_anywhere_end_evenly_spread(placed: list[tuple[str, int]]) -> None:
    masters = [
        MasterSeen("/", f"q{i}", node, messages, NODES) for i, (node, messages) in enumerate(placed)
    ]
    homes = {master.queue: master.node for master in masters}
    for move in plan_moves(masters, NODES):
        homes[move.queue] = move.node
    counts = Counter(homes.values())
    assert all(counts[node] <= -(-len(masters) // len(NODES)) for node in NODES)
