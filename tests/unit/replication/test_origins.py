"""How far publishers of other nodes have come is known, however often their nodes are restarted."""

from __future__ import annotations

from replica_world import Confirmed, ReplicaWorld, message
from warren.replication.classic.origins import ORIGINS_PER_NODE_MAX, make_origin, make_room_for

LIVES = 10 * ORIGINS_PER_NODE_MAX


class Elsewhere(Confirmed):
    def __init__(self, origin: str) -> None:
        super().__init__()
        self.origin = origin


def test_of_each_node_the_last_few_lives_are_known() -> None:
    numbers: dict[str, int] = {}
    for life in range(LIVES):
        for node in ("n1", "n/2"):
            origin = make_origin(node, f"life{life}")
            make_room_for(origin, numbers)
            numbers[origin] = life
    lives = range(LIVES - ORIGINS_PER_NODE_MAX, LIVES)
    assert numbers == {f"{node}/life{life}": life for life in lives for node in ("n1", "n/2")}


def test_what_a_former_life_sent_may_come_after_the_next_has_begun() -> None:
    numbers = {"n1/first": 7, "n1/second": 3}
    make_room_for("n1/first", numbers)
    assert numbers == {"n1/first": 7, "n1/second": 3}


def test_a_mirror_keeps_no_more_lives_of_a_node_than_a_few() -> None:
    world = ReplicaWorld()
    mirror = world.join("b")
    quiet = Elsewhere("quiet/1")
    world.master.publish(message(1), 0, quiet, 41)
    world.deliver()
    for life in range(LIVES):
        world.master.publish(message(life), 0, Elsewhere(f"n1/life{life}"), 1)
        world.deliver()
    assert mirror.numbers["quiet/1"] == 41, "its node is in its first life"
    assert mirror.numbers[f"n1/life{LIVES - 1}"] == 1
    assert sum(origin.startswith("n1/") for origin in mirror.numbers) == ORIGINS_PER_NODE_MAX
