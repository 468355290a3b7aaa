"""Held news: how far this node's mirrors have come, gathered for the nodes that lead their queues.

A commit of the journal makes messages of many queues safe at once. Each of their masters has to
hear of it, and most of these are on one or two nodes: so what a turn of the loop brings is told in
one message to each node. A later batch of a queue says all that an earlier one would.

Nobody waits to hear that a mirror holds a batch without messages (removals). That goes along with
the next word to the same node, or by itself after a while: a master that was just promoted, or
that is about to admit the mirror, may wait for exactly that number.
"""

from __future__ import annotations

from typing import Final

from warren.cluster.actions import TellNode
from warren.cluster.effects import Effects
from warren.cluster.link.control import Held, HeldCopy

UNAWAITED_MS: Final = 25
"""The longest that a mirror keeps to itself what nobody seems to wait for."""


class HeldNews:
    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._copies: dict[str, dict[str, HeldCopy]] = {}
        """The last word on each copy that is not sent yet, by node and uid of the group."""
        self._is_due = False
        self._is_timer_set = False

    def add(self, node: str, held: HeldCopy, is_awaited: bool) -> None:
        copies = self._copies.get(node)
        if copies is None:
            copies = self._copies[node] = {}
        copies[held.uid] = held
        if is_awaited:
            if not self._is_due:
                self._is_due = True
                self._effects.at_end_of_turn(self._send)
        elif not self._is_timer_set:
            self._is_timer_set = True
            self._effects.call_later(UNAWAITED_MS, self._timer_fired)

    def _timer_fired(self) -> None:
        self._is_timer_set = False
        self._send()

    def _send(self) -> None:
        self._is_due = False
        copies, self._copies = self._copies, {}
        for node, held in copies.items():
            self._effects.add(TellNode(node, Held(tuple(held.values()))))
