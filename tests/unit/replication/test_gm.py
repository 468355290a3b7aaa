"""Guaranteed multicast in small groups: the cases of RabbitMQ's own suite, and those of one."""

from __future__ import annotations

from gm_by_hand import UID, ByHand, gone, member
from warren.replication.gm.events import (
    Broadcast,
    Deliver,
    FrameArrived,
    Idle,
    Join,
    Leave,
    LinkUp,
    MembersChanged,
    ProposalAnswered,
    Propose,
    RecordChanged,
    Send,
    SessionEnded,
    SetTimer,
    Stopped,
    Timer,
    TimerFired,
)
from warren.replication.gm.frames import AddedOnRight, AddOnRight, CheckNeighbours, Rejected
from warren.replication.gm.member import FLUSH_MS, GroupMember
from warren.replication.gm.ring import BUFFER_BYTES_MAX
from warren.replication.group_record import admit_to_insync, create, promote

NOBODY: frozenset[str] = frozenset()


def test_1_01_who_joins_and_leaves_is_announced_once_and_ends_normally() -> None:
    group = ByHand("a")
    group.join("b")
    group.settle()
    assert group.news("b") == [MembersChanged(frozenset("ab"), NOBODY)]
    births = [MembersChanged(frozenset("a"), NOBODY), MembersChanged(frozenset("b"), NOBODY)]
    assert group.news("a") == births
    group.tell("a", Leave())
    group.settle()
    assert group.news("a")[2:] == [Stopped("normal")]
    assert group.news("b")[1:] == [MembersChanged(NOBODY, frozenset("a"))]
    group.tell("b", Leave())
    group.settle()
    assert group.news("b")[2:] == [Stopped("normal")]


def test_1_02_a_broadcast_is_heard_by_both_from_its_sender() -> None:
    group = ByHand("a", "b")
    group.broadcast("a", b"m")
    group.settle()
    assert group.heard("a", "a") == group.heard("b", "a") == [b"m"]


def test_1_03_a_broadcast_is_settled_when_its_origin_knows_that_both_have_it() -> None:
    group = ByHand("a", "b")
    group.broadcast("a", b"m")
    assert group.settled("a") == 0
    group.carry("a", "b")
    assert group.heard("b") == [b"m"]
    assert group.settled("a") == 0
    group.tell("b", TimerFired(Timer.ACKS))
    group.carry("b", "a")
    assert group.settled("a") == 1


def test_1_04_a_death_is_announced_to_each_survivor_exactly_once() -> None:
    group = ByHand("a", "b", "c")
    group.crash("c")
    group.tell_end_of("c")
    group.settle()
    for number in (1, 2):
        group.broadcast("a", b"m")
        group.settle()
        assert group.settled("a") == number
    for survivor in "ab":
        changes = [a for a in group.log[survivor] if isinstance(a, MembersChanged) and a.deaths]
        assert changes == [MembersChanged(NOBODY, frozenset("c"))]


def test_1_05_each_receiver_hears_each_sender_in_order() -> None:
    group = ByHand("a", "b")
    said = [str(number).encode() for number in range(1, 1_001)]
    for number, payload in enumerate(said):
        group.tell("a", Broadcast(payload, 1))
        group.tell("b", Broadcast(payload, 1))
        if number % 7 == 0:
            group.tell("a", Idle())
        if number % 11 == 0:
            group.tell("b", Idle())
            group.carry("a", "b")
        if number % 13 == 0:
            group.carry("b", "a")
    group.settle()
    for receiver in "ab":
        assert group.heard(receiver, "a") == said
        assert group.heard(receiver, "b") == said


def test_1_06_a_member_survives_what_it_did_not_expect() -> None:
    group = ByHand("a", "b")
    assert group.record is not None
    now = (UID, group.record.epoch, group.record.view)
    for frame in (
        AddedOnRight(*now, "b", True),
        CheckNeighbours(*now, "stranger", 5),
        CheckNeighbours("another queue", 9, 999, "b", 5),
        Rejected(*now, "stranger", 1),
    ):
        group.tell("a", FrameArrived(frame))
    for event in (LinkUp("nowhere"), ProposalAnswered(True), TimerFired(Timer.RETRY)):
        group.tell("a", event)
    group.broadcast("a", b"m")
    group.settle()
    assert not group.members["a"].is_stopped
    assert group.heard("b") == [b"m"]


def test_1_07_a_record_that_vanishes_while_a_death_is_recorded_stops_the_member() -> None:
    group = ByHand("a", "b")
    group.crash("b")
    group.tell_end_of("b")
    assert [name for name, _ in group.proposals] == ["a"]
    group.record = None
    group.revision += 1
    group.show()
    group.store_proposals()
    assert group.news("a")[-1] == Stopped("shutdown")


def test_1_08_a_ring_of_one_delivers_at_once_and_numbers_nothing() -> None:
    group = ByHand("a")
    assert group.tell("a", Broadcast(b"m", 1)) == [Deliver("a", 0, b"m")]
    assert group.tell("a", Broadcast(b"n", 1)) == [Deliver("a", 0, b"n")]
    group.join("b")
    group.settle()
    (delivery, _) = group.tell("a", Broadcast(b"o", 1))
    assert delivery == Deliver("a", 1, b"o")


def test_1_13_a_member_that_has_not_caught_up_drops_what_it_is_to_broadcast() -> None:
    group = ByHand("a")
    group.join("b")
    group.carry("b", "a")
    group.store_proposals()
    assert group.tell("b", Broadcast(b"m", 1)) == []
    group.settle()
    assert group.heard("a") == []
    group.broadcast("b", b"now")
    group.settle()
    assert group.heard("a") == [b"now"]


def test_1_14_a_member_whose_record_is_deleted_stops_without_waiting_and_proposes_nothing() -> None:
    """A queue's deletion removes the record: there is nobody left whom anybody could succeed."""
    group = ByHand("a", "b", "c")
    group.broadcast("a", b"m")
    group.record = None
    group.revision += 1
    group.show()
    for name in "abc":
        assert group.news(name)[-1] == Stopped("shutdown")
        assert group.tell(name, Broadcast(b"n", 1)) == []
        assert group.tell(name, SessionEnded(gone("a"))) == []
    group.settle()
    assert not group.proposals


def test_1_15_a_leader_that_is_long_dead_is_marked_and_another_lets_the_newcomer_in() -> None:
    group = ByHand("a", "b")
    group.crash("a")
    group.join("c")
    assert len(group.links["c", "a"]) == 1
    group.tell_end_of("a")
    group.settle_without("c")
    assert group.record is not None
    assert not group.record.is_live("a")
    group.change(lambda record: promote(record, "b", is_sync_needed=False))
    group.settle()
    assert group.members["c"].is_caught_up
    assert [m.id for m in group.record.live] == ["b", "c"]


def test_1_15_where_all_are_long_dead_the_newcomer_begins_again() -> None:
    group = ByHand("a")
    group.crash("a")
    assert group.record is not None
    before = group.record
    group.join("c")
    group.tell("c", SessionEnded(gone("a")))
    (proposal,) = (p for _, p in group.proposals)
    assert proposal.gone == (gone("a"),)
    group.store_proposals()
    assert group.record.leader == "c"
    assert group.record.view > before.view
    assert group.record.epoch > before.epoch


def test_1_15_who_may_not_found_a_group_waits() -> None:
    newcomer = GroupMember(member("c"), UID)
    newcomer.handle(RecordChanged(None, 4))
    actions = newcomer.handle(Join(may_found=False))
    assert actions == [SetTimer(Timer.RETRY, 100)]


def test_1_16_who_is_told_that_it_cannot_be_let_in_yet_asks_again_until_it_is() -> None:
    """Here a question that was asked of a record that has changed since."""
    group = ByHand("a", "b")
    group.join("c")
    group.change(lambda record: admit_to_insync(record, "a", "b"), "a", "b")
    group.carry("c", "a")
    (answer,) = [f for f, _ in group.links["a", "c"] if isinstance(f, AddedOnRight)]
    assert not answer.is_added
    assert not group.proposals
    group.settle()
    assert group.members["c"].is_caught_up


def test_1_16_only_the_leader_lets_anybody_in() -> None:
    group = ByHand("a", "b")
    assert group.record is not None
    now = (UID, group.record.epoch, group.record.view, "c")
    (answer,) = group.tell("b", FrameArrived(AddOnRight(*now, member("c"))))
    assert isinstance(answer, Send)
    assert isinstance(answer.frame, AddedOnRight)
    assert not answer.frame.is_added


def test_1_17_what_is_broadcast_goes_in_25_ms_or_at_once_when_it_is_much() -> None:
    group = ByHand("a", "b")
    actions = group.tell("a", Broadcast(b"m", BUFFER_BYTES_MAX))
    assert actions == [Deliver("a", 1, b"m"), SetTimer(Timer.FLUSH, FLUSH_MS)]
    assert FLUSH_MS == 25
    actions = group.tell("a", Broadcast(b"n", 1))
    (sent,) = [a for a in actions if isinstance(a, Send)]
    assert sent.payloads == (b"m", b"n")
    group.tell("a", TimerFired(Timer.FLUSH))
    group.tell("a", Broadcast(b"o", 1))
    (sent,) = [a for a in group.tell("a", TimerFired(Timer.FLUSH)) if isinstance(a, Send)]
    assert sent.payloads == (b"o",)


def test_1_17_what_is_broadcast_goes_when_the_turn_ends() -> None:
    group = ByHand("a", "b")
    group.tell("a", Broadcast(b"m", 1))
    (sent,) = [a for a in group.tell("a", Idle()) if isinstance(a, Send)]
    assert sent.payloads == (b"m",)
    assert not any(isinstance(a, Send) for a in group.tell("a", Idle()))


def test_1_20_a_member_that_is_left_alone_has_all_its_broadcasts_settled() -> None:
    group = ByHand("a", "b")
    group.broadcast("a", b"m")
    group.broadcast("a", b"n")
    group.crash("b")
    group.tell_end_of("b")
    assert group.settled("a") == 0
    group.store_proposals()
    assert group.settled("a") == 2
    assert group.pending("a") == {}
    group.settle()
    assert group.deaths("a") == ["b"]


def test_a_founder_is_refused_by_the_store_when_another_was_faster_and_joins_it() -> None:
    group = ByHand()
    group.join("a")
    group.join("b")
    assert len(group.proposals) == 2
    group.settle()
    assert group.record is not None
    assert group.record.leader == "a"
    assert {m.id for m in group.record.live} == {"a", "b"}


def test_proposals_name_the_revision_that_they_change() -> None:
    group = ByHand("a", "b")
    group.tell("b", SessionEnded(gone("a")))
    (_, proposal) = group.proposals[0]
    assert proposal.revision == group.revision
    assert proposal.gone == (gone("a"),)
    newcomer = GroupMember(member("z"), UID)
    newcomer.handle(Join())
    (_, founding) = newcomer.handle(RecordChanged(None, 9))
    assert founding == Propose(create(UID, member("z")), None)


def test_who_is_in_the_record_already_need_not_join() -> None:
    machine = GroupMember(member("a"), UID)
    actions = machine.handle(RecordChanged(create(UID, member("a")), 1))
    assert actions == [MembersChanged(frozenset("a"), NOBODY)]
    assert machine.handle(Broadcast(b"m", 1)) == [Deliver("a", 0, b"m")]
    (proposal,) = machine.handle(Leave())
    assert isinstance(proposal, Propose)
    assert proposal.record.live == ()


def test_who_leaves_before_it_has_asked_to_join_is_gone_at_once() -> None:
    machine = GroupMember(member("a"), UID)
    assert machine.handle(Leave()) == [Stopped("normal")]
