"""Which nodes should hold a copy of a queue: the `ha-*` keys of its policy. Pure.

The answer names a master and mirrors. The master differs from the present one in one case only:
with `ha-mode: nodes`, when the master is not on one of these nodes and a mirror in sync is. Until
then the master stays, besides the nodes that are named: there is one hand-over, and a queue never
leaves its only good copy behind. RabbitMQ hands over to any mirror in sync at once, and later a
second time to one that is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final


class MirrorMode(Enum):
    ALL = "all"
    EXACTLY = "exactly"
    NODES = "nodes"


SYNC_BATCH_DEFAULT: Final = 4_096
_MODES: Final = frozenset(each.value for each in MirrorMode)


@dataclass(frozen=True, slots=True)
class Mirroring:
    """What a policy wants. Values were checked when it was set."""

    mode: MirrorMode
    count: int = 0
    nodes: tuple[str, ...] = ()
    is_sync_automatic: bool = False
    sync_batch_size: int = SYNC_BATCH_DEFAULT
    promotes_unsynced_on_shutdown: bool = False
    promotes_unsynced_on_failure: bool = True
    is_kept_by_old_master: bool = False
    """A master that hands over stays as a mirror, also where only the number of copies counts."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Who holds a queue: a master, and mirrors with the oldest first."""

    master: str
    mirrors: tuple[str, ...] = ()


Choose = Callable[[Sequence[str], int], Sequence[str]]


def mirroring_of(
    policy: Mapping[str, object], batch_default: int = SYNC_BATCH_DEFAULT
) -> Mirroring | None:
    """None if the queue is not to be mirrored: without `ha-mode` nothing else counts."""
    mode = policy.get("ha-mode")
    if mode not in _MODES:
        return None
    params = policy.get("ha-params")
    batch_size = policy.get("ha-sync-batch-size")
    return Mirroring(
        mode=MirrorMode(mode),
        count=params if isinstance(params, int) else 0,
        nodes=tuple(str(each) for each in params) if isinstance(params, list | tuple) else (),
        is_sync_automatic=policy.get("ha-sync-mode") == "automatic",
        # One message at a time is accepted, as RabbitMQ does, and means nothing.
        sync_batch_size=batch_size
        if isinstance(batch_size, int) and batch_size > 1
        else batch_default,
        promotes_unsynced_on_shutdown=policy.get("ha-promote-on-shutdown") == "always",
        promotes_unsynced_on_failure=policy.get("ha-promote-on-failure") != "when-synced",
    )


def nodes_for_masters(mirroring: Mirroring | None, running: Sequence[str]) -> list[str]:
    """Where a new queue may be declared that is put where there is room for it."""
    if mirroring is None or mirroring.mode is not MirrorMode.NODES:
        return list(running)
    return [node for node in running if node in mirroring.nodes]


def wanted_copies(
    mirroring: Mirroring,
    present: Copies,
    synced: Sequence[str],
    running: Sequence[str],
    choose: Choose,
) -> Copies:
    """Who should hold the queue. `choose(nodes, n)` picks n of them, any; all if there are fewer.

    `present.mirrors` has the oldest first, `synced` those of them that lack nothing.
    """
    master = present.master
    if mirroring.mode is MirrorMode.ALL:
        return Copies(master, tuple(node for node in running if node != master))
    if mirroring.mode is MirrorMode.EXACTLY:
        return Copies(master, _exactly(mirroring.count - 1, present, running, choose))
    return _among(mirroring.nodes, present, synced, running)


def _exactly(
    count: int, present: Copies, running: Sequence[str], choose: Choose
) -> tuple[str, ...]:
    missing = count - len(present.mirrors)
    if missing <= 0:
        return present.mirrors[: max(0, count)]
    taken = {present.master, *present.mirrors}
    free = [node for node in running if node not in taken]
    return (*present.mirrors, *choose(free, min(missing, len(free))))


def _among(
    nodes: Sequence[str], present: Copies, synced: Sequence[str], running: Sequence[str]
) -> Copies:
    master = present.master
    available = [node for node in dict.fromkeys(nodes) if node in running]
    if master not in available:
        master = next((node for node in available if node in synced), master)
    return Copies(master, tuple(node for node in available if node != master))
