"""The demo, scene by scene.

    three nodes come up -> a queue with a copy on each -> load -> kill -9 of the leader
    -> a mirror leads, the load goes on -> the killed node returns and catches up, under load
    -> the queue is read from Spark -> it is read to its end, and nothing is missing

Everything that is waited for has a bound; what does not come by then is a failure of the demo.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from warren.cli.cluster import HOST, Child, LocalCluster
from warren.cli.ctl.api import Api, Refusal, Target
from warren.cli.ctl.verbs import Failure
from warren.cli.demo.load import Address, Publishing, ReadGate
from warren.cli.demo.screen import REFRESHES_PER_SECOND, Screen

QUEUE: Final = "demo"
POLICY: Final = {"pattern": f"^{QUEUE}$", "definition": {"ha-mode": "all"}, "apply-to": "queues"}
PATIENCE_S: Final = 240.0
ANSWER_S_MAX: Final = 5.0
LOOKED_EVERY_S: Final = 0.1
# Shares of the time: before the kill, without the killed node, and the rest after its return.
BEFORE_KILL: Final = 0.3
WITHOUT_IT: Final = 0.3


class DemoFailed(Exception):
    """Something that was promised did not happen; the text says what."""


@dataclass(frozen=True)
class Copies:
    """Of the queue, as a node tells it."""

    leader: str
    mirrors: tuple[str, ...]
    in_sync: tuple[str, ...]

    def __str__(self) -> str:
        mirrors = ", ".join(
            name if name in self.in_sync else f"{name} (catching up)" for name in self.mirrors
        )
        return f"leader {self.leader}, mirrors {mirrors or 'none'}"


class Story:
    def __init__(self, cluster: LocalCluster, screen: Screen, seconds: float, rate: float) -> None:
        self._cluster = cluster
        self._screen = screen
        self._seconds = seconds
        # The leader is made at the first node; clients, and whoever watches, are at the others.
        self._victim, *self._others = cluster.nodes
        self.publishing = Publishing(QUEUE, [_address(node) for node in self._others], rate)
        self._copies: Copies | None = None
        self.gap_ms = 0.0

    @property
    def page_url(self) -> str:
        return f"{self._others[0].http_url}/queues/%2F/{QUEUE}"

    async def until_all_is_well_again(self) -> None:
        """Returns with the load stopped and all of it in the queue."""
        looking = asyncio.create_task(self._keep_looking())
        try:
            await self._mirrored()
            await self._under_load()
            await self._killed()
            await self._returned()
            await self.publishing.stop()
        finally:
            looking.cancel()
            self.publishing.cancel()
            self._screen.clear_progress()

    async def read_back(self) -> ReadGate:
        """At the node that was killed: what it has now, it got from the others."""
        return await self.publishing.read_back(_address(self._victim))

    async def _mirrored(self) -> None:
        api = Api(Target.of(self._victim.http_url, None, None), PATIENCE_S)
        await asyncio.to_thread(api.put, "policies", "/", QUEUE, body=POLICY)
        await self.publishing.declare(_address(self._victim))
        names = {node.name for node in self._cluster.nodes}
        copies = await self._until(lambda c: {c.leader, *c.in_sync} == names, "all have a copy")
        self._screen.tell(f"queue '{QUEUE}' has a copy on each node: {copies}")

    async def _under_load(self) -> None:
        publishing = self.publishing
        publishing.start()
        self._screen.tell(
            f"publishing through {self._others[0].name}; a confirm means that every copy has the "
            "message on disk"
        )
        await self._watch(self._seconds * BEFORE_KILL)
        await self._until(lambda _: publishing.confirmed > 0, "a message is confirmed")

    async def _killed(self) -> None:
        victim, publishing = self._victim, self.publishing
        assert victim.process is not None, "it was started"
        publishing.forget_gap()
        self._screen.tell(f"kill -9 {victim.process.pid}: {victim.name}, the leader", "bold red")
        victim.process.kill()
        victim.process.wait()
        before = publishing.confirmed
        copies = await self._until(
            lambda c: c.leader != victim.name and publishing.confirmed > before + 1,
            "a mirror leads and confirms",
        )
        self.gap_ms = publishing.gap_ms
        self._screen.tell(
            f"{copies.leader} leads, and confirms; {self.gap_ms:,.0f} ms without a confirm, on "
            "connections that noticed nothing else",
            "bold green",
        )
        await self._watch(self._seconds * WITHOUT_IT)

    async def _returned(self) -> None:
        victim = self._victim
        self._screen.tell(f"{victim.name} is started again")
        began = time.monotonic()
        self._cluster.start_one(victim)
        copies = await self._until(
            lambda c: victim.name in c.in_sync, f"{victim.name} is synchronised"
        )
        took = time.monotonic() - began
        self._screen.tell(f"it is up and synchronised after {took:.1f} s: {copies}", "bold green")
        await self._watch(self._seconds * (1 - BEFORE_KILL - WITHOUT_IT))

    # Looking on

    async def _watch(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._show()
            await asyncio.sleep(1 / REFRESHES_PER_SECOND)

    async def _until(self, holds: Callable[[Copies], bool], what: str) -> Copies:
        deadline = time.monotonic() + PATIENCE_S
        while self._copies is None or not holds(self._copies):
            if time.monotonic() > deadline:
                raise DemoFailed(f"not within {PATIENCE_S:g} s: {what}; now: {self._copies}")
            if self.publishing.published:
                self._show()
            await asyncio.sleep(LOOKED_EVERY_S)
        return self._copies

    def _show(self) -> None:
        self._screen.progress(self.publishing, str(self._copies or ""))

    async def _keep_looking(self) -> None:
        """What a node that stays says of the queue."""
        target = Target.of(self._others[0].http_url, None, None)
        while True:
            self._copies = await asyncio.to_thread(_look, target) or self._copies
            await asyncio.sleep(LOOKED_EVERY_S)


def _look(target: Target) -> Copies | None:
    try:
        found: dict[str, Any] | None = Api(target, ANSWER_S_MAX).get_or_none("queues", "/", QUEUE)
    except (Refusal, Failure):
        return None  # it has other things to do just now
    if found is None or "node" not in found:
        return None
    mirrors, in_sync = found.get("slave_nodes", ()), found.get("synchronised_slave_nodes", ())
    return Copies(found["node"], tuple(sorted(mirrors)), tuple(sorted(in_sync)))


def _address(node: Child) -> Address:
    return HOST, int(node.amqp_url.rpartition(":")[2])
