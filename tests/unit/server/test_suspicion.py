"""Suspicion: members that cannot be reached are put out, and masters that are cut off move."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from warren.cluster.control import OutOfReach
from warren.cluster.node_states import NodeState
from warren.metadata.keys import node_key, node_state_key
from warren.metadata.store import Change
from warren.mirror.group_record import GroupRecord, Member
from warren.server.mirroring import suspicion
from warren.server.mirroring.suspicion import Suspicion

MEMBERS = tuple(Member(f"{node}/1/1", node, "1") for node in "abc")
RECORD = GroupRecord("uid", 1, 1, "a/1/1", MEMBERS, ("a/1/1", "b/1/1", "c/1/1"))


class Mirrors:
    """Of one node with one replica, which is linked to none of the others."""

    def __init__(self, node: str) -> None:
        self.put_out: list[str] = []
        self.told: list[tuple[str, object]] = []
        self.linked: set[str] = set()
        self.states_told = 0
        self.handed_over: list[tuple[str, bool]] = []
        states = SimpleNamespace(others={}, tell=self._tell_states)
        self.cluster = SimpleNamespace(
            name=node, sessions=dict.fromkeys("abc"), nodes_taking_part=[*"abc"], states=states
        )
        self.keeper = SimpleNamespace(is_fixed=lambda host: True)
        me = next(member for member in MEMBERS if member.node == node)
        self.host: Any = SimpleNamespace(
            replica=SimpleNamespace(
                me=me,
                record=RECORD,
                is_stopped=False,
                master=object() if me.id == RECORD.leader else None,
                expel=self.put_out.append,
                is_handing_over=False,
                hand_over=self._hand_over,
            )
        )
        self.replicas = {("/", "q"): self.host}

    def _tell_states(self) -> None:
        self.states_told += 1

    def _hand_over(self, successor: str, keeps_copy: bool) -> None:
        self.handed_over.append((successor, keeps_copy))

    def is_linked(self, node: str) -> bool:
        return node in self.linked

    def tell(self, node: str, news: object) -> None:
        self.told.append((node, news))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspicion, "SUSPECT_S", 0.001)


async def until(is_so: Callable[[], object]) -> None:
    for _ in range(3_000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


async def test_a_leader_puts_out_whom_it_cannot_reach() -> None:
    mirrors: Any = Mirrors("a")
    Suspicion(mirrors).link_down("c")
    await until(lambda: mirrors.put_out)
    assert set(mirrors.put_out) == {"c/1/1"}


async def test_a_mirror_tells_its_leader_of_its_neighbour() -> None:
    mirrors: Any = Mirrors("b")
    Suspicion(mirrors).link_down("c")
    await until(lambda: mirrors.told)
    assert mirrors.told[0] == ("a", OutOfReach("uid", "b/1/1", "c/1/1"))
    assert mirrors.put_out == []


async def test_who_goes_on_being_out_of_reach_is_told_of_again() -> None:
    mirrors: Any = Mirrors("b")
    Suspicion(mirrors).link_down("c")
    await until(lambda: len(mirrors.told) > 1)


async def test_a_link_that_comes_back_in_time_is_forgotten() -> None:
    mirrors: Any = Mirrors("a")
    suspects = Suspicion(mirrors)
    suspects.link_down("b")
    suspects.link_down("c")
    suspects.link_up("b")
    await until(lambda: mirrors.put_out)
    assert set(mirrors.put_out) == {"c/1/1"}


async def test_a_node_whose_session_has_ended_is_nobodys_concern() -> None:
    mirrors: Any = Mirrors("a")
    del mirrors.cluster.sessions["b"]
    suspects = Suspicion(mirrors)
    suspects.link_down("b")
    suspects.link_down("c")
    await until(lambda: mirrors.put_out)
    assert set(mirrors.put_out) == {"c/1/1"}


def test_a_leader_believes_a_neighbour_and_nobody_else() -> None:
    mirrors: Any = Mirrors("a")
    suspects = Suspicion(mirrors)
    suspects.told(mirrors.host, OutOfReach("uid", "c/1/1", "b/1/1"))
    suspects.told(mirrors.host, OutOfReach("uid", "b/1/1", "x/1/1"))
    assert mirrors.put_out == []
    suspects.told(mirrors.host, OutOfReach("uid", "b/1/1", "c/1/1"))
    assert mirrors.put_out == ["c/1/1"]


def test_who_does_not_lead_puts_out_nobody() -> None:
    mirrors: Any = Mirrors("c")
    Suspicion(mirrors).told(mirrors.host, OutOfReach("uid", "b/1/1", "c/1/1"))
    assert mirrors.put_out == []


async def test_all_nodes_are_told_who_cannot_be_reached_until_it_can() -> None:
    mirrors: Any = Mirrors("a")
    suspects = Suspicion(mirrors)
    suspects.link_down("b")
    assert suspects.unreachable == set(), "a link that is down for a moment is no reason"
    await until(lambda: suspects.unreachable)
    assert (suspects.unreachable, mirrors.states_told) == ({"b"}, 1)
    suspects.link_up("b")
    assert (suspects.unreachable, mirrors.states_told) == (set(), 2)


async def test_a_node_whose_session_ends_is_not_called_unreachable() -> None:
    mirrors: Any = Mirrors("a")
    suspects = Suspicion(mirrors)
    suspects.link_down("b")
    await until(lambda: suspects.unreachable)
    del mirrors.cluster.sessions["b"]
    await until(lambda: not suspects.unreachable)


def test_a_master_moves_when_a_node_says_that_it_cannot_reach_it() -> None:
    mirrors: Any = Mirrors("a")
    mirrors.linked = {"c"}
    suspects = Suspicion(mirrors)
    mirrors.cluster.states.others = {"b": NodeState(unreachable=("a",)), "c": NodeState()}
    suspects.follow([Change(node_key("b"), None)])
    assert mirrors.handed_over == [], "that was about something else"
    suspects.follow([Change(node_state_key("b"), None)])
    assert mirrors.handed_over == [("c/1/1", True)]


def test_a_master_does_not_move_to_a_node_whose_link_has_just_broken() -> None:
    mirrors: Any = Mirrors("a")
    suspects = Suspicion(mirrors)
    mirrors.cluster.states.others = {"b": NodeState(unreachable=("a",)), "c": NodeState()}
    suspects.follow([Change(node_state_key("b"), None)])
    assert mirrors.handed_over == []


def test_a_mirror_does_not_move_anything() -> None:
    mirrors: Any = Mirrors("c")
    mirrors.linked = {"a", "b"}
    suspects = Suspicion(mirrors)
    mirrors.cluster.states.others = {"b": NodeState(unreachable=("c",)), "a": NodeState()}
    suspects.follow([Change(node_state_key("b"), None)])
    assert mirrors.handed_over == []
