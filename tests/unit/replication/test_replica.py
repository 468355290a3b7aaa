"""Replica: what a copy does about each change of its record, of a link, and of its own disk."""

from __future__ import annotations

from collections.abc import Callable

from replica_world import Confirmed, ReplicaWorld, message
from warren.replication.classic.master import MasterBacking
from warren.replication.classic.retained import NOTHING, RetainedMessages
from warren.replication.gm.events import Timer
from warren.replication.gm.frames import Frame, Payload
from warren.replication.group_record import (
    GroupRecord,
    Member,
    RemovedByLeader,
    SessionGone,
    add_right_of,
    admit_to_insync,
    create,
    mark_dead,
    promote,
)
from warren.replication.replica import Replica


def member(name: str) -> Member:
    return Member(f"{name}/life-{name}/1", name, f"life-{name}")


A, B, C = map(member, "abc")


class Node:
    """The host of one replica: notes what is wanted, and makes it master of a world's queue."""

    def __init__(self, me: Member) -> None:
        self.world = ReplicaWorld()
        self.sent: list[tuple[str, Frame]] = []
        self.proposals: list[tuple[GroupRecord, Callable[[bool], None]]] = []
        self.kept: list[tuple[Member, int, RetainedMessages]] = []
        self.timers: list[Timer] = []
        self.reads = self.flushes = self.steps_down = 0
        self.reason = ""
        self.replica = Replica(me, "uid", self)

    def send(self, to: Member, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        self.sent.append((to.id, frame))

    def propose(
        self,
        record: GroupRecord,
        revision: int | None,
        gone: tuple[SessionGone, ...],
        answered: Callable[[bool], None],
    ) -> None:
        self.proposals.append((record, answered))

    def read_record(self) -> None:
        self.reads += 1

    def set_timer(self, timer: Timer, delay_ms: int) -> None:
        self.timers.append(timer)

    def tell_kept(self, leader: Member, epoch: int, remains: RetainedMessages) -> None:
        self.kept.append((leader, epoch, remains))

    def flush_due(self, replica: Replica, urgency: int) -> None:
        self.flushes += 1

    def may_promote_unsynced(self) -> bool:
        return False

    def lead(self, replica: Replica) -> MasterBacking:
        return self.world.master

    def step_down(self, replica: Replica) -> None:
        self.steps_down += 1

    def stopped(self, replica: Replica, reason: str) -> None:
        self.reason = reason

    def store(self) -> GroupRecord:
        """Store the last proposal, and show it."""
        record, answered = self.proposals.pop()
        answered(True)
        self.replica.record_changed(record, self.replica.revision + 1)
        return record


def group(*in_sync: Member) -> GroupRecord:
    """A leads, B and C are its mirrors."""
    record = add_right_of(add_right_of(create("uid", A), A.id, B), A.id, C)
    for each in in_sync:
        record = admit_to_insync(record, A.id, each.id)
    return record


def leading(*in_sync: Member) -> Node:
    node = Node(A)
    node.replica.record_changed(group(*in_sync), 1)
    assert node.replica.master is not None
    return node


def mirroring(record: GroupRecord, me: Member = B) -> Node:
    node = Node(me)
    node.replica.join(node.world.join(me.id))
    node.replica.record_changed(record, 1)
    assert node.replica.master is None
    return node


def test_a_replica_founds_its_group_and_leads_when_that_is_stored() -> None:
    node = Node(A)
    node.replica.record_changed(None, 0)
    node.replica.found(epoch=3)
    record = node.store()
    assert (record.leader, record.epoch) == (A.id, 3)
    assert node.replica.master is node.world.master


def test_a_master_waits_for_those_in_sync_and_for_no_others() -> None:
    node = leading(B)
    assert set(node.world.master.in_sync) == {B.id}


def test_a_mirror_is_waited_for_before_it_is_proposed_and_proposed_when_it_holds_all() -> None:
    node = leading(B)
    node.world.master.publish(message(1), 0, Confirmed(), 1)
    node.replica.flush()
    number = node.world.master.number
    node.replica.covered(C.id)
    assert set(node.world.master.in_sync) == {B.id, C.id}, "from now on it is waited for"
    assert node.proposals == []
    node.replica.held(C.id, 1, number - 1)
    assert node.proposals == []
    node.replica.held(C.id, 1, number)
    ((wanted, _),) = node.proposals
    assert C.id in wanted.insync
    node.replica.held(C.id, 1, number + 1)
    assert len(node.proposals) == 1, "one proposal at a time"
    node.store()
    assert set(node.world.master.in_sync) == {B.id, C.id}


def test_what_a_mirror_holds_of_another_epoch_says_nothing() -> None:
    node = leading(B)
    node.replica.held(B.id, 0, 9)
    assert node.world.master.held_by == {}
    node.replica.held(B.id, 1, 9)
    assert node.world.master.held_by == {B.id: 9}


def test_a_master_that_lost_its_link_to_a_mirror_in_sync_freezes_until_it_is_there_again() -> None:
    node = leading(B)
    node.replica.link_down(C.node)
    assert not node.world.master.is_frozen, "it is not waited for"
    node.replica.link_down(B.node)
    assert node.world.master.is_frozen
    node.replica.link_up(B.node)
    assert not node.world.master.is_frozen


def test_a_frozen_master_thaws_when_the_mirror_is_expelled_and_not_before() -> None:
    node = leading(B)
    node.replica.link_down(B.node)
    node.replica.expel(B.id)
    ((wanted, _),) = node.proposals
    assert not wanted.is_live(B.id)
    assert node.world.master.is_frozen
    node.store()
    assert not node.world.master.is_frozen
    assert set(node.world.master.in_sync) == set()


def test_a_master_is_blocked_while_its_mirrors_are_synchronised_in_rabbitmqs_way() -> None:
    node = leading(B)
    node.replica.block(True)
    assert node.world.master.is_frozen
    node.replica.block(False)
    assert not node.world.master.is_frozen


def test_a_master_hands_over_when_all_in_sync_hold_everything() -> None:
    node = leading(B)
    node.world.master.publish(message(1), 0, Confirmed(), 1)
    node.replica.hand_over(B.id, keeps_copy=True)
    assert node.world.master.is_frozen, "it delivers nothing any more"
    assert node.proposals == []
    node.replica.held(B.id, 1, node.world.master.number)
    ((wanted, _),) = node.proposals
    assert wanted.successor == B.id


def test_a_hand_over_to_a_mirror_that_lacks_something_is_abandoned() -> None:
    node = leading(B)
    node.replica.hand_over(C.id, keeps_copy=True)
    assert not node.world.master.is_frozen
    assert node.proposals == []


def test_a_mirror_out_of_sync_tells_its_master_once_with_what_it_comes() -> None:
    node = mirroring(group())
    ((leader, epoch, remains),) = node.kept
    assert (leader.id, epoch, remains.runs) == (A.id, 1, NOTHING.runs)
    node.replica.record_changed(admit_to_insync(group(), A.id, C.id), 2)
    assert len(node.kept) == 1
    node.replica.link_up(A.node)
    assert len(node.kept) == 2, "what was told may have been lost with the link"


def test_a_mirror_in_sync_has_nothing_to_tell() -> None:
    assert mirroring(group(B)).kept == []


def test_a_mirror_whose_disk_refuses_leaves_once_per_record_if_it_can_be_spared() -> None:
    node = mirroring(group(B))
    node.replica.give_up()
    ((wanted, _),) = node.proposals
    assert not wanted.is_live(B.id)
    node.replica.give_up()
    assert len(node.proposals) == 1


def test_a_master_does_not_give_up() -> None:
    node = leading(B)
    node.replica.give_up()
    assert node.proposals == []


def test_a_replica_that_is_put_out_stops_and_steps_down() -> None:
    mirror = mirroring(group(B))
    mirror.replica.record_changed(mark_dead(group(B), B.id, RemovedByLeader(A.id)), 2)
    assert (mirror.replica.is_stopped, mirror.reason, mirror.steps_down) == (True, "shutdown", 0)
    master = leading(B)
    dead = mark_dead(group(B), A.id, SessionGone(A.node, A.incarnation))
    master.replica.record_changed(promote(dead, B.id), 2)
    assert (master.replica.is_stopped, master.steps_down) == (True, 1)


def test_an_older_record_changes_nothing() -> None:
    node = leading(B)
    node.replica.record_changed(None, 1)
    assert not node.replica.is_stopped


def test_a_death_in_the_store_is_proposed_to_the_record_by_the_heir() -> None:
    other = mirroring(group(B), B)
    other.replica.session_ended(SessionGone(A.node, A.incarnation))
    assert other.proposals == []
    node = mirroring(group(B), C)
    node.replica.session_ended(SessionGone(A.node, A.incarnation))
    ((wanted, _),) = node.proposals
    assert not wanted.is_live(A.id)


def test_a_proposal_that_was_refused_is_made_again_after_reading_the_record() -> None:
    node = mirroring(group(B), C)
    node.replica.session_ended(SessionGone(A.node, A.incarnation))
    _, answered = node.proposals.pop()
    answered(False)
    assert node.reads == 1
    assert Timer.RETRY in node.timers
    node.replica.timer_fired(Timer.RETRY)
    assert len(node.proposals) == 1


def test_an_earlier_life_in_the_in_sync_set_is_claimed_by_the_next() -> None:
    """All are gone; the copy of this node's last life has everything that was confirmed."""
    record = create("uid", A)
    record = mark_dead(record, A.id, SessionGone(A.node, A.incarnation))
    node = Node(Member(f"{A.node}/next/1", A.node, "next"))
    node.replica.join(node.world.join("next"))
    node.replica.session_ended(SessionGone(A.node, A.incarnation))
    node.replica.record_changed(record, 1)
    (wanted, _) = node.proposals[0]
    assert wanted.leader == node.replica.me.id
