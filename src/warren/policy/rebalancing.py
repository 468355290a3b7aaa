"""How to spread the masters of replicated queues evenly over the nodes that take part. Pure.

As RabbitMQ does it: no node shall have more than its share of masters, and those move that have the
fewest messages. Where RabbitMQ takes a copy for granted that may lack messages, whoever carries out
the plan sees to it that the destination has everything first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from warren.policy.wanted_copies import Mirroring, MirrorMode


@dataclass(frozen=True, slots=True)
class MasterSeen:
    """A replicated queue where it is; `candidates`: nodes that may have its master instead."""

    vhost: str
    queue: str
    node: str
    messages: int
    candidates: tuple[str, ...]
    kind: str = "classic"
    """The queue's type."""


@dataclass(frozen=True, slots=True)
class Move:
    vhost: str
    queue: str
    node: str


def candidates_of(
    mirroring: Mirroring, mirrors: Sequence[str], taking_part: Collection[str]
) -> tuple[str, ...]:
    """Where the policy admits of a master, those with a mirror first; none without copies."""
    if mirroring.mode is MirrorMode.EXACTLY and mirroring.count < 2:
        return ()
    allowed = mirroring.nodes if mirroring.mode is MirrorMode.NODES else sorted(taking_part)
    listed = dict.fromkeys([*(node for node in mirrors if node in allowed), *allowed])
    return tuple(node for node in listed if node in taking_part)


def plan_moves(masters: Sequence[MasterSeen], taking_part: Collection[str]) -> list[Move]:
    """Those to be made so that no node has more than its share, as far as the policies let them."""
    if not taking_part:
        return []
    share = -(-len(masters) // len(taking_part))
    counts = Counter(dict.fromkeys(taking_part, 0))
    counts.update(master.node for master in masters)
    moves = []
    for master in sorted(masters, key=lambda each: (each.messages, each.vhost, each.queue)):
        if counts[master.node] <= share:
            continue
        free = [node for node in master.candidates if counts[node] < share]
        if free:
            destination = min(free, key=lambda node: counts[node])
            counts[master.node] -= 1
            counts[destination] += 1
            moves.append(Move(master.vhost, master.queue, destination))
    return moves
