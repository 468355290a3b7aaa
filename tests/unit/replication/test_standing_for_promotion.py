"""Who stands for promotion when a leader is gone: the eldest that lacks nothing."""

from __future__ import annotations

from collections.abc import Callable

from replica_world import ReplicaWorld
from warren.replication.classic.master import MasterBacking
from warren.replication.gm.events import Timer
from warren.replication.gm.frames import Frame, Payload
from warren.replication.group_record import (
    GroupRecord,
    Member,
    SessionGone,
    add_right_of,
    admit_to_insync,
    create,
    erase,
    mark_dead,
    promote,
)
from warren.replication.replica import Replica


def member(name: str) -> Member:
    return Member(f"{name}/{name}/1", name, f"life-{name}")


A, B, C = map(member, "abc")


class Node:
    """The host of one replica: what it would store, and nothing else."""

    def __init__(self, me: Member, may_lose: bool = False) -> None:
        self.proposals: list[GroupRecord] = []
        self._may_lose = may_lose
        self.replica = Replica(me, "uid", self)
        self.replica.mirror = ReplicaWorld().join(me.id)

    def send(self, to: Member, frame: Frame, payloads: tuple[Payload, ...]) -> None: ...

    def propose(
        self,
        record: GroupRecord,
        revision: int | None,
        gone: tuple[SessionGone, ...],
        answered: Callable[[bool], None],
    ) -> None:
        self.proposals.append(record)

    def read_record(self) -> None: ...

    def set_timer(self, timer: Timer, delay_ms: int) -> None: ...

    def flush_due(self, replica: Replica, urgency: int) -> None: ...

    def may_promote_unsynced(self) -> bool:
        return self._may_lose

    def lead(self, replica: Replica) -> MasterBacking:
        raise AssertionError("nobody has stored that it leads")

    def step_down(self, replica: Replica) -> None: ...

    def stopped(self, replica: Replica, reason: str) -> None: ...

    @property
    def would_lead(self) -> bool:
        return any(record.leader == self.replica.me.id for record in self.proposals)


def without_its_leader(*in_sync: Member) -> GroupRecord:
    """A led, B came, C came; A is gone, and all have heard what it said."""
    record = create("uid", A)
    record = add_right_of(record, A.id, B)
    record = add_right_of(record, B.id, C)
    for each in in_sync:
        record = admit_to_insync(record, A.id, each.id)
    record = mark_dead(record, A.id, SessionGone(A.node, A.incarnation))
    return erase(record, B.id, frozenset({A.id}))


def test_3_41_an_elder_that_lacks_something_lets_a_younger_one_lead() -> None:
    """RabbitMQ goes by age alone, and loses what only the younger one has."""
    elder, younger = Node(B, may_lose=True), Node(C, may_lose=True)
    record = without_its_leader(C)
    for node in (elder, younger):
        node.replica.record_changed(record, 9)
    assert (elder.would_lead, younger.would_lead) == (False, True)


def test_of_those_that_lack_nothing_the_eldest_leads() -> None:
    elder, younger = Node(B), Node(C)
    for node in (elder, younger):
        node.replica.record_changed(without_its_leader(B, C), 9)
    assert (elder.would_lead, younger.would_lead) == (True, False)


def test_if_all_lack_something_the_eldest_leads_where_that_is_allowed() -> None:
    for may_lose in (True, False):
        elder, younger = Node(B, may_lose), Node(C, may_lose)
        for node in (elder, younger):
            node.replica.record_changed(without_its_leader(), 9)
        assert (elder.would_lead, younger.would_lead) == (may_lose, False)


class Leading(Node):
    """Has what it would lead with looked at, and goes no further."""

    def lead(self, replica: Replica) -> MasterBacking:
        assert replica.mirror is not None
        self.numbers = dict(replica.mirror.numbers)
        return ReplicaWorld().master


def numbers_of_new_master(*in_sync: Member) -> dict[str, int]:
    """What B, which leads from now on, says that it has of publishers; A had told it."""
    node = Leading(B, may_lose=True)
    assert node.replica.mirror is not None
    node.replica.mirror.numbers["elsewhere"] = 7
    record = without_its_leader(*in_sync)
    node.replica.record_changed(record, 9)
    node.replica.record_changed(promote(record, B.id, is_sync_needed=False), 10)
    return node.numbers


def test_a_master_that_was_in_sync_knows_what_was_published() -> None:
    assert numbers_of_new_master(B) == {"elsewhere": 7}


def test_a_master_that_lacks_messages_does_not_call_them_taken() -> None:
    """They were not confirmed, so they come again, and must not be confirmed unseen."""
    assert numbers_of_new_master() == {}


def test_a_mirror_whose_disk_refuses_is_spared_by_a_leader_that_is_alive() -> None:
    node = Node(B)
    record = admit_to_insync(add_right_of(create("uid", A), A.id, B), A.id, B.id)
    node.replica.record_changed(record, 9)
    node.replica.give_up()
    assert [each.is_live(B.id) for each in node.proposals] == [False]
    assert node.proposals[0].insync == (A.id,)


def test_a_mirror_whose_disk_refuses_stays_if_nobody_else_has_everything() -> None:
    """Also if that turns out while it wants to leave: then it buries the leader, and takes over."""
    node = Node(B)
    record = admit_to_insync(add_right_of(create("uid", A), A.id, B), A.id, B.id)
    gone = SessionGone(A.node, A.incarnation)
    node.replica.record_changed(record, 9)
    node.replica.session_ended(gone)
    node.replica.give_up()
    node.replica.record_changed(without_its_leader(B), 10)
    node.replica.give_up()
    assert all(each.is_live(B.id) for each in node.proposals)
    assert node.would_lead
