"""Events of a mirrored queue's group, as listeners of the event exchange hear them."""

from __future__ import annotations

import pytest

from manual_clock import ManualClock
from warren.broker.events import Event, EventBus
from warren.cluster.group_events import GroupEvents
from warren.replication.group_changes import (
    Begun,
    GroupNews,
    InSyncChanged,
    MirrorAdded,
    MirrorDropped,
    Promoted,
)


class Ears:
    def __init__(self) -> None:
        self.heard: list[Event] = []

    def wants(self, name: str) -> bool:
        return name.startswith("warren.mirror.")

    def hear(self, event: Event) -> None:
        self.heard.append(event)


@pytest.mark.parametrize(
    ("news", "lacking", "key", "facts"),
    [
        (Begun(), None, "begun", {}),
        (MirrorAdded("b"), None, "added", {"mirror": "b", "view": 7}),
        (MirrorDropped("b"), None, "dropped", {"mirror": "b", "view": 7}),
        (InSyncChanged(("b", "a")), None, "insync", {"mirrors": "a,b", "count": 2, "view": 7}),
        (
            Promoted("b", "a", 3, is_safe=True),
            None,
            "promoted",
            {"master": "b", "master_before": "a", "epoch": 3, "is_safe": True, "lost": 0},
        ),
        (
            Promoted("b", "a", 3, is_safe=False),
            5,
            "promoted",
            {"master": "b", "master_before": "a", "epoch": 3, "is_safe": False, "lost": 5},
        ),
        (
            Promoted("b", "a", 3, is_safe=False),
            None,
            "promoted",
            {"master": "b", "master_before": "a", "epoch": 3, "is_safe": False, "lost": -1},
        ),
    ],
)
def test_news_of_a_group(
    news: GroupNews, lacking: int | None, key: str, facts: dict[str, object]
) -> None:
    bus, ears = EventBus(ManualClock()), Ears()
    bus.node_name = "a"
    bus.listeners.append(ears)
    GroupEvents(bus).happened(("/", "q"), news, 7, lacking)
    (event,) = ears.heard
    assert event.name == f"warren.mirror.{key}"
    assert event.properties == {"node": "a", "vhost": "/", "queue": "q", **facts}
