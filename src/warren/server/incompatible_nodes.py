"""Nodes that have a session and can never be linked: of two, the one that came second has to go.

A node that finds one with another secret at its start does not join (`Links.meet`). Two that start
at the same moment find nobody, and both join. The store knows who was first; whoever is refused by
a node that was there before stops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warren.metadata.keys import KeyKind, parse_key
from warren.metadata.store import Change


class IncompatibleNodes:
    """`give_up` is told why this node has to stop."""

    def __init__(self, own_name: str, cluster: str, give_up: Callable[[str], None]) -> None:
        self._own_name = own_name
        self._cluster = cluster
        self._give_up = give_up
        self._since: dict[str, int] = {}

    def follow(self, changes: Sequence[Change]) -> None:
        for change in changes:
            key = parse_key(change.key)
            if key is None or key.kind is not KeyKind.NODE:
                continue
            if change.record is None:
                self._since.pop(key.parts[0], None)
            else:
                self._since[key.parts[0]] = change.record.version

    def refused(self, node: str, reason: str) -> None:
        """This one and that one do not belong together."""
        since, own_since = self._since.get(node), self._since.get(self._own_name)
        if since is not None and own_since is not None and since < own_since:
            self._give_up(f"this node cannot stay in cluster '{self._cluster}': {reason}")
