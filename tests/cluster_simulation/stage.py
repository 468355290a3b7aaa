"""A cluster of three under load, to which a script does something and sees what comes of it.

`a` leads, `b` and `c` are in sync. Publishers work on all three nodes and consumers too,
all the time; the witness watches, so whatever a script does, nobody confirms or delivers
beside the leader and nothing confirmed is lost.
"""

from __future__ import annotations

from typing import Final

from cluster_simulation.world import EVERYWHERE, World
from gm_invariants import Violation
from warren.cluster.sessions import SESSION_TTL_S
from warren.policy.wanted_copies import Mirroring
from warren.replication.group_record import GroupRecord, node_of

PUBLISH_US: Final = 40_000
BEGIN_US: Final = 800_000
LEASE_US: Final = round(SESSION_TTL_S * 1_000_000)
FAILOVER_US: Final = LEASE_US + 1_000_000
"""The longest that a queue stands still when its leader is cut off."""
PUT_OUT_US: Final = FAILOVER_US
"""The longest that it does when links are cut: silence is noticed, then members are expelled."""
WATCH_US: Final = 1_000_000
STEP_US: Final = 10_000


class Stage:
    def __init__(
        self, seed: int, mirroring: Mirroring = EVERYWHERE, consumer_us_max: int = 200_000
    ) -> None:
        self.world = World(seed)
        self.world.consumer_us_max = consumer_us_max
        self.world.mirroring = mirroring
        self.world.start()
        self.world.every(PUBLISH_US, self._publish)
        self.wait(BEGIN_US)
        self.require(self.leader == "a", "a does not lead")

    def _publish(self) -> None:
        if not self.world.is_peaceful:
            for process in self.world.processes:
                process.client.publish()

    # What is seen.

    @property
    def record(self) -> GroupRecord:
        record = self.world.record
        assert record is not None, "the queue is mirrored"
        return record

    @property
    def leader(self) -> str:
        return node_of(self.record.leader)

    @property
    def in_sync(self) -> str:
        return "".join(sorted(set(map(node_of, self.record.insync))))

    def require(self, is_so: bool, otherwise: str) -> None:
        if not is_so:
            now_ms = self.world.schedule.now_us / 1_000
            raise Violation(f"at {now_ms:.0f} ms: {otherwise}: {self.record}")

    def heard(self, *, is_safe: bool = False) -> str:
        """On which nodes clients hear confirms now; it takes a while to see.

        `is_safe`: of messages that nobody has acknowledged, so that a disk must have them.
        """
        before_us = self.world.schedule.now_us
        self.wait(WATCH_US)
        witness = self.world.witness
        times_us = witness.heard_safe_us if is_safe else witness.heard_us
        return "".join(name for name in "abc" if times_us.get(name, 0) > before_us)

    def require_confirms(self, names: str, gap_us_max: int, duration_us: int) -> None:
        """For so long, clients of each of these nodes never wait longer than that for a confirm."""
        now_us = self.world.schedule.now_us
        ends_us, heard_us = now_us + duration_us, dict.fromkeys(names, now_us)
        while now_us < ends_us:
            self.wait(STEP_US)
            now_us = self.world.schedule.now_us
            for name in names:
                heard_us[name] = max(heard_us[name], self.world.witness.heard_us.get(name, 0))
                gap_us = now_us - heard_us[name]
                self.require(gap_us <= gap_us_max, f"clients of {name} wait for {gap_us} us")

    # What is done.

    def wait(self, duration_us: int) -> None:
        self.world.run(duration_us)

    def cut(self, *pairs: str) -> None:
        """Both ways; the store can be reached."""
        for one, other in pairs:
            self.world.split(one, other)

    def isolate(self, name: str) -> None:
        """From everybody and everything."""
        self.world.split(name, [other for other in self.world.nodes if other != name])
        self.world.nodes[name].is_cut_from_store = True

    def rejoin(self, name: str) -> None:
        for other in self.world.nodes:
            if other != name:
                self.world.mend(name, other)
                self.world.mend(other, name)
        self.world.nodes[name].mend_store()

    def kill(self, name: str) -> None:
        self.world.nodes[name].kill()

    def start(self, name: str) -> None:
        self.world.nodes[name].start()

    def end(self, leader: str = "") -> World:
        """Everything heals: all copies are in sync, nothing is lost, and so on."""
        self.world.make_peace()
        self.world.come_to_rest()
        self.require(not leader or self.leader in leader, f"the leader is not among {leader}")
        self.world.witness.reckon()
        return self.world
