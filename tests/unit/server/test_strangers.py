"""Of two nodes that can never be linked, the one that came second stops."""

from __future__ import annotations

from warren.metadata.keys import node_key
from warren.metadata.store import Change, Record
from warren.server.incompatible_nodes import IncompatibleNodes


def came(node: str, version: int) -> Change:
    return Change(node_key(node), Record(node_key(node), b"", version))


def test_only_the_one_that_came_second_gives_up() -> None:
    said: dict[str, list[str]] = {"a": [], "b": []}
    nodes = {name: IncompatibleNodes(name, "cluster", said[name].append) for name in said}
    for strangers in nodes.values():
        strangers.follow([came("b", 7), came("a", 8)])
    nodes["a"].refused("b", "node 'b' has another cluster secret")
    nodes["b"].refused("a", "node 'a' has another cluster secret")
    reason = "this node cannot stay in cluster 'cluster': node 'b' has another cluster secret"
    assert said == {"a": [reason], "b": []}


def test_nobody_gives_up_for_a_node_without_a_session_or_before_it_has_one_itself() -> None:
    said: list[str] = []
    strangers = IncompatibleNodes("a", "cluster", said.append)
    strangers.follow([came("b", 7)])
    strangers.refused("b", "")
    strangers.follow([came("a", 8), Change(node_key("b"), None)])
    strangers.refused("b", "")
    assert said == []
