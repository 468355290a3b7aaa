"""Columns of list_queues that show mirrors, in rabbitmqctl's format."""

from __future__ import annotations

import re

from warren.cli.ctl.queue_listing import COLUMNS
from warren.cli.ctl.terms import shown

MIRRORED = {
    "name": "q",
    "vhost": "/",
    "node": "n1@host",
    "slave_nodes": ["n2@host", "n3@host"],
    "synchronised_slave_nodes": ["n3@host"],
}
PID = r"<{}\.\d+\.\d+\.\d+>"


def cell(column: str, item: dict[str, object]) -> str:
    return shown(COLUMNS[column].value(item))


def test_mirrors_are_pids_of_their_nodes_in_the_order_given() -> None:
    """9-01."""
    pids = ", ".join(PID.format(node) for node in ("n2@host", "n3@host"))
    for column in ("slave_pids", "mirror_pids"):
        assert re.fullmatch(rf"\[{pids}\]", cell(column, MIRRORED))
    for column in ("synchronised_slave_pids", "synchronised_mirror_pids"):
        assert re.fullmatch(rf"\[{PID.format('n3@host')}\]", cell(column, MIRRORED))
    assert re.fullmatch(PID.format("n1@host"), cell("pid", MIRRORED))


def test_a_mirrored_queue_without_mirrors_differs_from_one_that_is_not_mirrored() -> None:
    """9-01."""
    alone = {**MIRRORED, "slave_nodes": [], "synchronised_slave_nodes": []}
    plain = {name: MIRRORED[name] for name in ("name", "vhost", "node")}
    for column in ("slave_pids", "synchronised_slave_pids"):
        assert cell(column, alone) == "[]"
        assert cell(column, plain) == ""


def test_a_queue_that_synchronises_says_how_far_it_has_come() -> None:
    """9-01."""
    assert cell("state", {**MIRRORED, "state": "syncing", "sync_messages": 7}) == "{syncing, 7}"
    assert cell("state", {**MIRRORED, "state": "down"}) == "down"
