from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warren.flow.credit import Credit
from warren.flow.states import FlowRecord, Stage


class Watched:
    """A credit and what it said, in order."""

    def __init__(self, bytes_max: int) -> None:
        self.said: list[str] = []
        self.credit = Credit(bytes_max)
        self.credit.on_exhausted = lambda _: self.said.append("exhausted")
        self.credit.on_available = lambda _: self.said.append("available")


def test_it_is_exhausted_at_its_bound_and_available_at_half_of_it() -> None:
    watched = Watched(100)
    credit = watched.credit
    credit.charge(99)
    assert (credit.is_exhausted, watched.said) == (False, [])
    credit.charge(1)
    assert (credit.is_exhausted, watched.said) == (True, ["exhausted"])
    credit.release(49)
    assert credit.is_exhausted
    credit.release(1)
    assert (credit.is_exhausted, watched.said) == (False, ["exhausted", "available"])


def test_every_charge_without_room_is_told() -> None:
    """That is how it is known who makes it worse."""
    watched = Watched(100)
    watched.credit.charge(100)
    watched.credit.charge(1)
    assert watched.said == ["exhausted", "exhausted"]
    assert watched.credit.bytes_used == 101


def test_charging_between_half_and_full_on_the_way_down_tells_nothing() -> None:
    watched = Watched(100)
    watched.credit.charge(100)
    watched.credit.release(20)
    watched.credit.charge(5)
    assert watched.said == ["exhausted"]
    assert watched.credit.is_exhausted


def test_one_message_larger_than_the_bound_passes_and_exhausts() -> None:
    watched = Watched(100)
    watched.credit.charge(1_000)
    assert watched.credit.is_exhausted
    watched.credit.release(1_000)
    assert not watched.credit.is_exhausted


def test_queues_that_charge_without_room_are_held_until_there_is_some() -> None:
    credit = Credit(100, Stage.STORE)
    innocent, guilty = FlowRecord(), FlowRecord()
    credit.charge(50, innocent)
    credit.charge(50, guilty)
    assert (innocent.is_held, guilty.is_held) == (False, True)
    assert guilty.stage is Stage.STORE
    credit.free_debtors(1_000)
    assert not guilty.is_held
    assert guilty.is_in_flow(1_500)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=50))
def test_it_is_never_stuck(steps: list[tuple[bool, int]]) -> None:
    """Whatever happens in whatever order, with nothing under way it is available."""
    watched = Watched(100)
    under_way: list[int] = []
    for is_charge, size in steps:
        if is_charge:
            under_way.append(size)
            watched.credit.charge(size)
        elif under_way:
            watched.credit.release(under_way.pop())
        assert watched.credit.bytes_used == sum(under_way)
    for size in under_way:
        watched.credit.release(size)
    assert not watched.credit.is_exhausted
    assert watched.said[-1:] in ([], ["available"])


def test_c132_whoever_charges_for_the_store_waits_for_it_whichever_credit_runs_out() -> None:
    """The index counts bodies in the message store, too, as long as they are in memory."""
    credit, queue = Credit(10, Stage.QUEUE), FlowRecord()
    credit.charge(10)
    assert credit.stage is Stage.QUEUE
    credit.charge(1, queue)
    assert (credit.stage, queue.is_held, queue.stage) == (Stage.STORE, True, Stage.STORE)
    credit.charge(1)
    assert credit.stage is Stage.QUEUE
