"""Figures of several nodes are added up as RabbitMQ would have counted them."""

from __future__ import annotations

from typing import Any

from warren.management.cluster.sums import add, total_overview


def counted(count: int, rate: float) -> dict[str, Any]:
    return {"publish": count, "publish_details": {"rate": rate}}


def test_counts_and_rates_are_added_and_names_kept() -> None:
    one = {"name": "x", "message_stats": counted(3, 0.5)}
    other = {"name": "y", "message_stats": counted(4, 1.0)}
    assert add(one, other) == {"name": "x", "message_stats": counted(7, 1.5)}
    assert one["message_stats"] == counted(3, 0.5), "the parts stay as they are"


def test_what_one_has_not_counted_the_other_has() -> None:
    stats = {"message_stats": counted(4, 1.0)}
    assert add({"name": "x"}, stats) == {"name": "x", **stats}
    assert add({"name": "x", **stats}, {}) == {"name": "x", **stats}
    assert add({"durable": True}, {"durable": True}) == {"durable": True}


def test_samples_of_the_same_age_are_added() -> None:
    one = {"samples": [{"sample": 9, "timestamp": 20}, {"sample": 5, "timestamp": 10}]}
    other = {"samples": [{"sample": 1, "timestamp": 21}]}
    total = {"samples": [{"sample": 10, "timestamp": 20}, {"sample": 5, "timestamp": 10}]}
    assert add(one, other) == total
    assert [sample["sample"] for sample in add(other, one)["samples"]] == [10, 5]


def overview(node: str, queues: int) -> dict[str, Any]:
    return {
        "node": node,
        "churn_rates": {},
        "message_stats": counted(1, 0.0),
        "object_totals": {"exchanges": 8, "queues": queues},
        "queue_totals": {"messages": queues},
        "contexts": [{"node": node}],
        "listeners": [{"node": node, "port": 1}, {"node": node, "port": 2}],
    }


def test_an_overview_is_of_the_whole_cluster_and_says_who_gives_it() -> None:
    total = total_overview(overview("b", 2), [overview("c", 4), overview("a", 3)])
    assert total["node"] == "b"
    assert total["object_totals"] == {"exchanges": 8, "queues": 9}, "all have the same exchanges"
    assert total["queue_totals"] == {"messages": 9}
    assert total["message_stats"] == counted(3, 0.0)
    assert [listener["node"] for listener in total["listeners"]] == list("aabbcc")
    assert [context["node"] for context in total["contexts"]] == list("abc")


def test_of_a_node_that_tells_less_what_it_tells_counts() -> None:
    total = total_overview(overview("b", 2), [{"object_totals": {"queues": 1}}])
    assert total["object_totals"] == {"exchanges": 8, "queues": 3}
    assert total["queue_totals"] == {"messages": 2}
