"""The past of a cluster, as plots show it: it stays what it was when a node leaves or returns."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from browsing import browser, sign_in, visiting
from cluster.nodes import ClusterOfNodes, NodeProcess, eventually, publish, running

__all__ = ["browser"]

AGE = {
    "lengths_age": "600", "lengths_incr": "5", "msg_rates_age": "600", "msg_rates_incr": "5",
}  # fmt: skip
STEP_MS = 5_000

Samples = dict[int, tuple[int, int]]


@pytest.fixture(scope="module")
def mortal_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfNodes]:
    with running(tmp_path_factory.mktemp("history")) as cluster:
        for node, queue, count in ((cluster.nodes[0], "near", 3), (cluster.nodes[2], "far", 50)):
            channel = node.channel()
            channel.queue_declare(queue, durable=True)
            for _ in range(count):
                publish(channel, queue, b"counted")
        yield cluster


def overview(node: NodeProcess) -> dict[str, Any]:
    found: dict[str, Any] = node.api.must(node.api.get("overview", **AGE))
    return found


def past(node: NodeProcess, family: str = "queue_totals", name: str = "messages") -> Samples:
    """By moment: the total, and of how many nodes it is. The newest, which is no full step, aside.

    All that is left is at full steps, which do not depend on when one asks.
    """
    samples = overview(node)[family].get(f"{name}_details", {}).get("samples", [])
    return {
        sample["timestamp"]: (sample["sample"], sample["nodes"])
        for sample in samples
        if sample["timestamp"] % STEP_MS == 0
    }


def await_total(node: NodeProcess, total: int, nodes: int, moments: int = 1) -> Samples:
    """Until the past has so many moments with that total."""

    def seen() -> Samples:
        found = past(node)
        return found if list(found.values()).count((total, nodes)) >= moments else {}

    found: Samples = eventually(seen, f"{total} messages of {nodes} nodes")
    return found


def agree(before: Samples, after: Samples) -> int:
    """Number of moments that both know; each has to be the same."""
    common = before.keys() & after.keys()
    assert {t: before[t] for t in common} == {t: after[t] for t in common}
    return len(common)


def machine(node: NodeProcess, of: NodeProcess, figure: str) -> dict[int, int]:
    found = (
        node.api.must(node.api.get("warren", "history", "nodes")).get(of.name, {}).get(figure, [])
    )
    return {sample["timestamp"]: sample["sample"] for sample in found}


def test_the_past_stays_when_a_node_leaves_and_returns(
    mortal_cluster: ClusterOfNodes, browser: Browser
) -> None:
    first, _, third = mortal_cluster.nodes
    whole, published = await_total(first, 53, 3), past(first, "message_stats", "publish")
    third.kill()
    alone = await_total(first, 3, 2, moments=4)
    assert agree(whole, alone) >= 1
    assert agree(published, past(first, "message_stats", "publish")) >= 1
    found = overview(first)
    assert (found["nodes_counted"], found["nodes_total"]) == (2, 3)
    known = machine(first, third, "disk_free")
    assert known
    assert 0 not in known.values()

    third.launch()
    third.await_ready()
    count = sum(total == (53, 3) for total in whole.values())
    back = await_total(first, 53, 3, moments=count + 2)
    assert agree(whole, back) >= 1
    assert agree(alone, back) >= len(alone) - 1
    rates = past(first, "message_stats", "publish")
    assert agree(published, rates) >= 1
    values = [rates[t][0] for t in sorted(rates)]
    assert values == sorted(values), "nothing that is counted falls"

    # The node that was away knows of the time before it from the others.
    eventually(lambda: agree(past(third), whole), "the past is known at the new node, too")
    told = machine(first, third, "disk_free")
    assert all(told[t] == known[t] for t in known if t in told and t % STEP_MS == 0)
    assert 0 not in told.values()
    gaps = [b - a for a, b in pairwise(sorted(told))]
    assert max(gaps) > 2 * STEP_MS, "the time that it was away is a gap"
    _look_at_gaps(browser, first, third)


def _look_at_gaps(browser: Browser, first: NodeProcess, third: NodeProcess) -> None:
    with visiting(browser, first.http_port) as arrive:
        page = arrive()
        sign_in(page, "guest", "guest")
        expect(page.locator(".plot canvas")).to_have_count(4)
        disk = page.locator("figure", has_text="Free disk space")
        expect(disk).to_contain_text(third.name)
        expect(page.locator("figure", has_text="Messages in queues")).to_contain_text("Nodes")
        plots = page.evaluate("fetch('/overview/plots?span=10min').then((a) => a.json())")
        line = plots["disk"]["data"][1 + plots["disk"]["titles"].index(third.name)]
        assert None in line
        assert 0 not in line
        lengths = plots["lengths"]
        assert set(lengths["data"][1 + lengths["titles"].index("Nodes")]) >= {2, 3}
        if directory := os.environ.get("WARREN_PICTURES"):
            page.screenshot(path=str(Path(directory) / "history.png"), full_page=True)
