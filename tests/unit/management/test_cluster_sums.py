"""Figures of several nodes are added up as RabbitMQ would have counted them."""

from __future__ import annotations

from typing import Any

from warren.management.cluster.sums import add, extend_past, total_overview


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


def samples(*values: tuple[int, int]) -> list[dict[str, Any]]:
    return [{"timestamp": timestamp, "sample": sample} for timestamp, sample in values]


def test_the_past_that_a_node_lacks_is_taken_from_another() -> None:
    ours = samples((30, 7), (20, 5))
    extend_past(ours, samples((30, 107), (20, 106), (10, 104)))
    assert ours == samples((30, 7), (20, 5), (10, 104))


def test_what_grows_goes_on_from_where_another_node_was() -> None:
    ours = samples((30, 7), (20, 5))
    extend_past(ours, samples((30, 107), (20, 106), (10, 104)), is_growing=True)
    assert ours == samples((30, 7), (20, 5), (10, 3))
    later = samples((40, 2))
    extend_past(later, samples((30, 107), (20, 104)), is_growing=True)
    assert later == samples((40, 2), (30, 2), (20, -1))


def test_totals_have_the_past_of_the_node_that_was_asked() -> None:
    """Every node knows the past of all: it is not added up."""

    def with_past(node: str, *values: tuple[int, int]) -> dict[str, Any]:
        details = {"rate": 1.0, "samples": samples(*values), "avg": 1.0, "avg_rate": 1.0}
        return {**overview(node, 1), "queue_totals": {"messages": 4, "messages_details": details}}

    total = total_overview(with_past("a", (20, 9)), [with_past("b", (20, 9), (10, 8))])
    assert total["queue_totals"] == {
        "messages": 8,
        "messages_details": {
            "rate": 2.0,
            "samples": samples((20, 9), (10, 8)),
            "avg": 1.0,
            "avg_rate": 1.0,
        },
    }


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
