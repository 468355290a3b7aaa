"""Random transactions, many at a time, against a dict that takes them one by one.

The contract lets calls overlap and says that those who share a key take effect in the order of
the calls. So a model that applies each call at once, when it is made, must agree with every
answer, with the final contents and with what a watcher was told. Versions are the engine's own
business; the model knows a version by the value that came with it, which is never used twice.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from metadata_engines import ENGINES
from warren.metadata.store import (
    Change,
    Check,
    Delete,
    Lease,
    LeaseLost,
    MetadataStore,
    Operation,
    Put,
)

KEYS = [f"k{i}" for i in range(5)]
CHECKS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["shown", "absent"])), max_size=2
)
CHANGES = st.dictionaries(
    st.sampled_from(KEYS), st.sampled_from(["put", "lease", "delete"]), max_size=3
)
Expected: TypeAlias = tuple[str, bytes | None]


@dataclass
class Model:
    """Values by key, and which lease (by its number) each key lives on."""

    values: dict[str, bytes] = field(default_factory=dict)
    lease_of: dict[str, int] = field(default_factory=dict)

    def apply(self, checked: Sequence[Expected], changes: Sequence[Operation]) -> bool:
        if any(self.values.get(key) != value for key, value in checked):
            return False
        for change in changes:
            self.delete(change.key)
            if isinstance(change, Put):
                self.values[change.key] = change.value
                if change.lease is not None:
                    self.lease_of[change.key] = change.lease.id
        return True

    def delete(self, key: str) -> None:
        self.values.pop(key, None)
        self.lease_of.pop(key, None)

    def end_lease(self, lease_id: int) -> None:
        for key in [key for key, owner in self.lease_of.items() if owner == lease_id]:
            self.delete(key)


class StoreMachine(RuleBasedStateMachine):
    engine = ""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = tempfile.TemporaryDirectory()
        self.make = ENGINES[self.engine](Path(self.directory.name))
        self.model = Model()
        self.calls: list[tuple[asyncio.Future[bool], bool]] = []
        self.leases: list[Lease] = []
        self.values_given = 0

    @initialize()
    def open(self) -> None:
        self.store: MetadataStore = self.make()
        self.loop.run_until_complete(self.store.open())
        self.copy = {r.key: r.value for r in self.loop.run_until_complete(self.store.range(""))}
        self.store.watch(self.follow)

    def follow(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.record is None:
                del self.copy[change.key]
            else:
                self.copy[change.key] = change.record.value

    def turn(self, times: int) -> None:
        async def turn() -> None:
            for _ in range(times):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turn())

    def change(self, key: str, how: str) -> Operation:
        if how == "delete":
            return Delete(key)
        self.values_given += 1
        value = b"%d" % self.values_given
        return Put(key, value, self.leases[-1] if how == "lease" and self.leases else None)

    def check(self, key: str, how: str) -> tuple[Check, Expected]:
        """What the store shows now, which those still on their way may yet change."""
        record = self.loop.run_until_complete(self.store.get(key))
        if how == "absent" or record is None:
            return Check(key, 0), (key, None)
        return Check(key, record.version), (key, record.value)

    @rule(checks=CHECKS, changes=CHANGES, turns=st.integers(0, 3))
    def submit(self, checks: list[tuple[str, str]], changes: dict[str, str], turns: int) -> None:
        asked = [self.check(key, how) for key, how in checks]
        operations = [self.change(key, how) for key, how in changes.items()]
        call = self.loop.create_task(self.store.transact([c for c, _ in asked], operations))
        expected = self.model.apply([e for _, e in asked], operations)
        self.calls.append((call, expected))
        self.turn(turns)

    @rule()
    def grant(self) -> None:
        self.leases.append(self.loop.run_until_complete(self.store.grant_lease(3600)))

    @precondition(lambda self: self.leases)
    @rule(turns=st.integers(0, 3))
    def revoke(self, turns: int) -> None:
        lease = self.leases.pop()
        call = self.loop.create_task(self.revoked(lease))
        self.model.end_lease(lease.id)
        self.calls.append((call, True))
        self.turn(turns)

    async def revoked(self, lease: Lease) -> bool:
        await self.store.revoke(lease)
        with pytest.raises(LeaseLost):
            await self.store.keep_alive(lease)
        return True

    @rule()
    def settle(self) -> None:
        for call, expected in self.calls:
            assert self.loop.run_until_complete(call) == expected
        self.calls.clear()
        shown = self.loop.run_until_complete(self.store.range(""))
        assert {record.key: record.value for record in shown} == self.model.values
        assert self.copy == self.model.values

    @rule()
    def restart(self) -> None:
        self.settle()
        for lease in self.leases:
            self.loop.run_until_complete(self.store.revoke(lease))
            self.model.end_lease(lease.id)
        self.leases.clear()
        self.loop.run_until_complete(self.store.close())
        self.open()
        assert self.copy == self.model.values

    @invariant()
    def a_watched_copy_is_what_is_read(self) -> None:
        async def compare() -> None:
            assert {r.key: r.value for r in await self.store.range("")} == self.copy

        self.loop.run_until_complete(compare())

    def teardown(self) -> None:
        self.settle()
        self.loop.run_until_complete(self.store.close())
        self.loop.close()
        self.directory.cleanup()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_overlapping_transactions_are_as_good_as_one_by_one(engine: str) -> None:
    class EngineMachine(StoreMachine):
        pass

    EngineMachine.engine = engine
    run_state_machine_as_test(
        EngineMachine,
        settings=settings(
            max_examples=50,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
