"""Figures as people read them, what they type, and the drawing of a ring."""

from __future__ import annotations

from typing import Any

import pytest

from warren.management.page.api_caller import Refused
from warren.management.page.formats import count, duration, rate, size
from warren.management.page.ring_drawing import draw_ring
from warren.management.page.tiers import tiers_of
from warren.management.page.typed_fields import object_of, table_of

SPACE = "\N{NARROW NO-BREAK SPACE}"


def test_figures_are_short_and_have_their_units() -> None:
    assert [count(n) for n in (0, 999, 20_000, None)] == [
        "0",
        "999",
        f"20{SPACE}000",
        "\N{EN DASH}",
    ]
    assert [rate(r) for r in (0.0, 0.25, 12.4, 9_999, 25_000, 3e7)] == [
        "0/s", "0.2/s", "12/s", f"9{SPACE}999/s", f"25.0{SPACE}k/s", f"30.0{SPACE}M/s",
    ]  # fmt: skip
    assert [size(n) for n in (0, 1023, 1536, 150 * 1024, 3 * 2**30)] == [
        f"0{SPACE}B", f"1023{SPACE}B", f"1.5{SPACE}KiB", f"150{SPACE}KiB", f"3.0{SPACE}GiB",
    ]  # fmt: skip
    assert [duration(n) for n in (5, 61_000, 90_061_000)] == [
        f"5{SPACE}ms", f"1{SPACE}min 1{SPACE}s", f"1{SPACE}d 1{SPACE}h",
    ]  # fmt: skip


def test_arguments_are_lines_or_an_object() -> None:
    expected = {"x-max-length": 10, "x-overflow": "reject-publish", "on": True}
    assert table_of("x-max-length = 10\n\nx-overflow=reject-publish\non = true", "it") == expected
    assert table_of('{"x-max-length": 10, "x-overflow": "reject-publish", "on": true}', "it") == (
        expected
    )
    assert table_of("formula = a=b", "it") == {"formula": "a=b"}
    assert table_of(" \n ", "it") == {}


@pytest.mark.parametrize("text", ["no equals sign", "= 1", "{broken", "x = 1\n" * 101])
def test_what_cannot_be_understood_is_refused_in_words(text: str) -> None:
    with pytest.raises(Refused) as refused:
        table_of(text, "arguments")
    assert "arguments" in refused.value.reason


def test_an_object_is_no_list() -> None:
    with pytest.raises(Refused):
        object_of("[]", "definition")


def test_messages_are_in_memory_on_disk_or_between() -> None:
    queue = {
        "messages_ready": 100,
        "messages_ready_ram": 30,
        "backing_queue_status": {"delta": ["delta", 1, 50, 0, 51]},
    }
    assert tiers_of(queue) == (30, 0, 20, 50)
    assert tiers_of({"messages_ready": 7, "messages_ready_ram": 7}) == (7, 0, 0, 0)
    assert tiers_of({"state": "down"}) is None


def test_each_state_of_messages_is_counted_by_itself() -> None:
    status = {"alpha": 1, "beta": 2, "gamma": 3, "delta": ["delta", 6, 4, 0, 10]}
    queue = {"messages_ready": 10, "messages_ready_ram": 1, "backing_queue_status": status}
    assert tiers_of(queue) == (1, 2, 3, 4)


def test_of_a_queue_with_priorities_it_is_known_what_is_in_memory() -> None:
    status = {"delta": [["priority", 0], ["delta", 1, 50, 0, 51]]}
    for delta in (status, {"delta": "undefined"}, {"delta": [1, 2, "3"]}, {}):
        queue = {"messages_ready": 9, "messages_ready_ram": 4, "backing_queue_status": delta}
        assert tiers_of(queue) == (4, 0, 0, 5)


def member(node: str, **facts: Any) -> dict[str, Any]:
    return {
        "node": node, "is_leader": False, "is_live": True, "is_in_sync": True, "joined_view": 1,
        "lacking": 0, **facts,
    }  # fmt: skip


def test_a_ring_has_an_arrow_to_each_right_hand_neighbour() -> None:
    members = [member("a", is_leader=True), member("b"), member("c", is_live=False)]
    drawing = draw_ring({"members": members}, 10)
    assert [arrow.is_live for arrow in drawing.arrows] == [True, False, False]
    assert len({(place.x, place.y) for place in drawing.places}) == 3
    for place in drawing.places:
        assert 0 < place.x < drawing.width
        assert 0 < place.y < drawing.height
    assert draw_ring({"members": members[:1]}, 10).arrows == []


def test_a_mirror_that_lacks_something_is_never_whole() -> None:
    lacking = [0, 10, 5, 1, None]
    members = [member(str(n), is_in_sync=n == 0, lacking=n) for n in lacking]
    assert [p.share for p in draw_ring({"members": members}, 10).places] == [100, 0, 50, 90, None]
    behind = [member("b", is_in_sync=False, lacking=1)]
    assert draw_ring({"members": behind}, 1_000_000).places[0].share == 99
