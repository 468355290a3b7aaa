"""The history of totals: what nodes have done together, which does not change afterwards."""

from __future__ import annotations

from itertools import pairwise

from warren.statistics.total_history import HEARD_MS_MAX, MACHINES_MAX, TotalHistory, TotalSample

STEP_MS = 5_000


def figures(messages: int, published: int) -> dict[str, int]:
    return {"messages": messages, "publish": published, "mem_used": 10 * messages}


def told(history: TotalHistory, name: str, now_ms: int) -> list[TotalSample]:
    """The oldest first."""
    return history.samples(name, now_ms, 600, 5)[::-1]


def test_nodes_are_added_up_and_counted() -> None:
    history = TotalHistory("a")
    history.heard("b", 4_900, figures(4, 0))
    history.add(STEP_MS, figures(3, 0))
    assert told(history, "messages", STEP_MS) == [TotalSample(STEP_MS, 7, 2)]
    machines = {node: past.samples("mem_used", STEP_MS, 60, 5) for node, past in
                history.machines.items()}  # fmt: skip
    assert {node: [s.value for s in past] for node, past in machines.items()} == {
        "a": [30],
        "b": [40],
    }


def test_the_past_stays_when_a_node_leaves_and_when_it_comes_back() -> None:
    history, known = TotalHistory("a"), dict[int, tuple[TotalSample, TotalSample]]()
    counts: list[int] = []
    for step in range(1, 41):
        now_ms = step * STEP_MS
        if not 10 <= step < 25:  # it is down, and begins anew
            history.heard("b", now_ms - 100, figures(100, 50 * (step if step < 10 else step - 25)))
        history.add(now_ms, figures(10, 20 * step))
        lengths, grown = told(history, "messages", now_ms), told(history, "publish", now_ms)
        for length, growth in zip(lengths, grown, strict=True):
            assert known.setdefault(length.timestamp_ms, (length, growth)) == (length, growth)
        counts.append(lengths[-1].nodes)
    lengths = [length.value for length, _ in known.values()]
    assert set(lengths) == {110, 10}
    assert counts == [2] * 11 + [1] * 13 + [2] * 16
    totals = [growth.value for _, growth in known.values()]
    rises = [after - before for before, after in pairwise(totals)]
    assert set(rises) == {70, 20}  # never a fall, never a jump


def test_a_node_that_was_not_heard_for_a_while_adds_no_jump() -> None:
    history = TotalHistory("a")
    history.add(STEP_MS, figures(0, 0))
    history.heard("b", 2 * STEP_MS, figures(0, 1_000_000))
    history.add(2 * STEP_MS, figures(0, 0))
    late_ms = 2 * STEP_MS + HEARD_MS_MAX + STEP_MS
    history.add(late_ms, figures(0, 0))
    history.heard("b", late_ms + STEP_MS, figures(0, 2_000_000))
    history.add(late_ms + STEP_MS, figures(0, 0))
    assert {s.value for s in told(history, "publish", late_ms + STEP_MS)} == {0}


def test_a_node_that_is_said_to_be_down_is_not_counted_from_then_on() -> None:
    history = TotalHistory("a")
    history.heard("b", STEP_MS, figures(4, 0))
    history.add(STEP_MS, figures(3, 0))
    history.heard("b", STEP_MS + 1, {})
    history.add(2 * STEP_MS, figures(3, 0))
    assert told(history, "messages", 2 * STEP_MS)[-1] == TotalSample(2 * STEP_MS, 3, 1)


def test_machines_that_left_are_remembered_up_to_a_bound() -> None:
    history = TotalHistory("a")
    for number in range(MACHINES_MAX + 5):
        history.heard(f"n{number}", number * STEP_MS, figures(1, 1))
        history.add(number * STEP_MS, figures(1, 1))
    assert len(history.machines) == MACHINES_MAX
