"""Whom a member listens to, and what happens to what it does not hear."""

from __future__ import annotations

import pytest

from gm_by_hand import UID, ByHand, gone, member, out_of_sync
from warren.replication.gm import neighbour_links as gm_links
from warren.replication.gm.events import (
    Broadcast,
    Deliver,
    FrameArrived,
    Idle,
    LinkDown,
    LinkUp,
    Propose,
    ReadRecord,
    Send,
    SessionEnded,
    Stopped,
    Timer,
    TimerFired,
)
from warren.replication.gm.frames import Activity, Catchup, CheckNeighbours, Progress, Rejected
from warren.replication.gm.publications import WINDOW_BYTES, WINDOW_PUBLICATIONS
from warren.replication.gm.rounds import OWED_ACKS_MAX, OWED_BYTES_MAX
from warren.replication.group_record import (
    RemovedByLeader,
    add_right_of,
    admit_to_insync,
    leave,
    mark_dead,
    promote,
)


def frames(actions: list[object], kind: type) -> list[Activity]:
    return [a.frame for a in actions if isinstance(a, Send) and isinstance(a.frame, kind)]


def test_1_18_what_comes_of_a_newer_view_waits_until_the_record_has_been_read() -> None:
    group = ByHand("a", "b")
    group.change(lambda record: admit_to_insync(record, "a", "b"), "a")
    group.broadcast("a", b"m")
    group.broadcast("a", b"n")
    assert group.carry("a", "b") == [ReadRecord()]
    assert group.heard("b") == []
    group.show("b")
    assert group.heard("b") == [b"m", b"n"]


def test_1_19_nobody_but_the_left_is_listened_to() -> None:
    group = ByHand("a", "b", "c")
    assert group.ring == ["a", "c", "b"]
    assert group.record is not None
    fence = (UID, group.record.epoch, group.record.view, "a")
    progress = (Progress("a", 1, 0, (group.record.view,), (1,)),)
    for frame in (Catchup(*fence, 99, progress), Activity(*fence, 1, 1, progress)):
        assert group.tell("b", FrameArrived(frame, (b"m",))) == []
    assert group.pending("b") == {}


def test_1_21_who_was_put_out_while_it_stood_still_does_nothing_when_it_goes_on() -> None:
    group = ByHand("a", "b", "c")
    group.broadcast("c", b"m")
    group.carry("c", "b")
    group.change(lambda record: mark_dead(record, "c", RemovedByLeader("a")), "a", "b")
    zombie = group.members.pop("c")
    group.broadcast("a", b"without c")
    group.settle()
    group.members["c"] = zombie
    group.broadcast("c", b"zombie")
    group.show("c")
    assert group.news("c")[-1] == Stopped("shutdown")
    for event in (
        TimerFired(Timer.FLUSH),
        Idle(),
        Broadcast(b"x", 1),
        SessionEnded(gone("a")),
        LinkUp("node-a"),
    ):
        assert group.tell("c", event) == []
    group.settle()
    assert b"x" not in group.heard("c")
    for name in "ab":
        assert sorted(group.heard(name)) == [b"m", b"without c"]


def test_1_21_a_deposed_leader_is_told_so_and_holds_back_until_it_has_read_the_record() -> None:
    group = ByHand("a", "b", "c")
    group.change(lambda r: promote(leave(r, "a"), "c", is_sync_needed=False), "b", "c")
    group.broadcast("a", b"stale")
    (rejection,) = frames(list(group.carry("a", "c")), Rejected)
    assert rejection.epoch == 2
    assert b"stale" not in group.heard("c")
    assert set(group.carry("c", "a")) == {ReadRecord()}
    actions = group.tell("a", Broadcast(b"more", 1)) + group.tell("a", TimerFired(Timer.FLUSH))
    assert not [a for a in actions if isinstance(a, Send | Propose)]
    group.show("a")
    assert group.news("a")[-1] == Stopped("shutdown")


def test_a_member_whose_frame_was_rejected_tells_all_anew_once_it_knows_the_epoch() -> None:
    """The others' leader has died; between two that live on nothing may be lost for it."""
    group = ByHand("a", "d", "c", "b")
    assert group.ring == ["a", "b", "c", "d"]
    group.broadcast("c", b"m")
    group.crash("a")
    group.change(
        lambda record: promote(mark_dead(record, "a", gone("a")), "b", is_sync_needed=False),
        "b",
        "d",
    )
    group.carry("c", "d")
    assert group.heard("d") == []
    group.settle()
    assert group.heard("b") == group.heard("c") == group.heard("d") == [b"m"]
    assert group.deaths("c") == ["a"]


def test_a_gap_makes_the_left_begin_anew_and_is_never_stepped_over() -> None:
    group = ByHand("a", "b")
    group.broadcast("a", b"lost")
    group.links["a", "b"].clear()
    group.broadcast("a", b"later")
    group.broadcast("a", b"latest")
    asked = frames(list(group.carry("a", "b")), CheckNeighbours)
    assert len(asked) == 1
    assert group.heard("b") == []
    group.settle()
    assert group.heard("b") == [b"lost", b"later", b"latest"]


def test_what_comes_twice_is_heard_once() -> None:
    group = ByHand("a", "b")
    group.broadcast("a", b"m")
    link = group.links["a", "b"]
    link.append(link[0])
    group.tell("a", LinkUp("node-b"))
    link.append(link[-1])
    group.settle()
    assert group.heard("b") == [b"m"]


def test_over_a_link_that_is_down_nothing_is_sent_and_everything_when_it_is_up_again() -> None:
    group = ByHand("a", "b")
    group.tell("a", LinkDown("node-b"))
    group.broadcast("a", b"m")
    assert not group.links["a", "b"]
    (catchup,) = frames(list(group.tell("a", LinkUp("node-b"))), Catchup)
    assert [p.lengths for p in catchup.progress if p.origin == "a"] == [(1,)]
    group.settle()
    assert group.heard("b") == [b"m"]
    assert group.settled("a") == 1


def test_the_last_hop_brings_the_origin_numbers_and_no_payload() -> None:
    group = ByHand("a", "b", "c")
    group.broadcast("a", b"m")
    group.carry("a", "c")
    assert not [a for a in group.carry("c", "b") if isinstance(a, Send)], "nobody waits for it"
    (sent,) = [a for a in group.tell("b", TimerFired(Timer.ACKS)) if isinstance(a, Send)]
    assert sent.to.id == "a"
    assert sent.payloads == ()
    own, progress = frames([sent], Activity)[0].progress
    assert (own.origin, progress.origin) == ("b", "a")
    assert (progress.last_pub, progress.lengths) == (1, ())


@pytest.mark.parametrize(
    ("count", "size"), [(OWED_ACKS_MAX, 1), (2, OWED_BYTES_MAX // 2)], ids=["many", "large"]
)
def test_the_last_hop_does_not_wait_when_much_is_owed(count: int, size: int) -> None:
    group = ByHand("a", "b", "c")
    for _ in range(count - 1):
        group.broadcast("a", bytes(size))
        group.carry("a", "c")
        assert not [a for a in group.carry("c", "b") if isinstance(a, Send)]
    group.broadcast("a", bytes(size))
    group.carry("a", "c")
    (sent,) = [a for a in group.carry("c", "b") if isinstance(a, Send)]
    assert [(p.origin, p.last_pub) for p in sent.frame.progress] == [("b", 1), ("a", count)]


def test_the_last_hop_does_not_wait_when_a_member_is_dead() -> None:
    """Its heir waits for it, and with the heir everybody who waits for a new master."""
    group = ByHand("a", "b", "c", "d")
    group.broadcast("a", b"m")
    group.carry("a", "d")
    group.carry("d", "c")
    assert not [a for a in group.carry("c", "b") if isinstance(a, Send)]
    assert not group.links["b", "a"]
    group.crash("d")
    group.bury("d")
    assert group.links["b", "a"], "what waited is sent when the death is known"
    group.carry("b", "a")
    assert group.settled("a") == 1
    group.broadcast("a", b"n")
    group.carry("a", "c")
    assert [a for a in group.carry("c", "b") if isinstance(a, Send)], "and nothing waits after it"


def test_acknowledgements_go_with_the_next_broadcast() -> None:
    group = ByHand("a", "b")
    group.broadcast("a", b"m")
    group.carry("a", "b")
    group.tell("b", TimerFired(Timer.ACKS))
    assert not [a for a in group.carry("b", "a") if isinstance(a, Send)]
    assert group.pending("b") == {"a": 1}
    group.broadcast("a", b"n")
    (progress,) = group.links["a", "b"][0][0].progress
    assert (progress.last_pub, progress.acked) == (2, 1)
    group.carry("a", "b")
    assert group.pending("b") == {"a": 1}


@pytest.mark.parametrize(("count", "size"), [(WINDOW_PUBLICATIONS, 1), (8, WINDOW_BYTES // 8)])
def test_a_full_window_says_so_and_says_when_there_is_room_again(count: int, size: int) -> None:
    group = ByHand("a", "b")
    machine = group.members["a"]
    for _ in range(count):
        assert machine.has_room()
        group.tell("a", Broadcast(bytes(size), size))
    assert not machine.has_room()
    group.tell("a", Idle())
    group.carry("a", "b")
    # What has come round is still held by others until they know that it has.
    actions = group.carry("b", "a")
    assert not machine.has_room()
    assert len(frames(list(actions), Activity)) == 1
    group.carry("a", "b")
    group.carry("b", "a")
    assert machine.has_room()
    assert len(group.heard("b")) == count


def test_held_frames_are_bounded_and_what_was_dropped_is_told_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gm_links, "HELD_FRAMES_MAX", 3)
    group = ByHand("a", "b")
    group.change(lambda record: admit_to_insync(record, "a", "b"), "a")
    said = [str(number).encode() for number in range(10)]
    for payload in said:
        group.broadcast("a", payload)
    group.carry("a", "b")
    assert group.members["b"]._held._count == 0
    group.change(lambda record: out_of_sync(record, "b"))
    assert group.heard("b") == []
    group.settle()
    assert group.heard("b") == said


def test_frames_held_of_several_views_are_taken_in_order() -> None:
    group = ByHand("a", "b")
    for number in range(4):
        if number % 2 == 0:
            group.change(lambda record: admit_to_insync(record, "a", "b"), "a")
        else:
            group.change(lambda record: out_of_sync(record, "b"), "a")
        if number == 1:
            seen = (group.record, group.revision)
        group.broadcast("a", str(number).encode())
    group.carry("a", "b")
    latest = (group.record, group.revision)
    group.record, group.revision = seen
    group.show("b")
    assert group.heard("b") == [b"0", b"1"]
    group.record, group.revision = latest
    group.show("b")
    assert group.heard("b") == [b"0", b"1", b"2", b"3"]


def test_an_older_record_that_comes_late_changes_nothing() -> None:
    group = ByHand("a", "b")
    before = (group.record, group.revision)
    group.change(lambda record: add_right_of(record, "a", member("c")), "b")
    latest = group.members["b"].record
    group.record, group.revision = before
    group.show("b")
    assert group.members["b"].record is latest


def test_what_a_newcomer_publishes_first_is_heard_by_nobody() -> None:
    group = ByHand("a", "b")
    assert [a for name in "ab" for a in group.log[name] if isinstance(a, Deliver)] == []
    group.broadcast("b", b"m")
    group.settle()
    assert [a.number for a in group.log["a"] if isinstance(a, Deliver)] == [2]


def test_what_everybody_had_before_we_were_there_is_passed_on_as_such() -> None:
    """A leader that nobody could catch up begins with nothing, and hears of the dead later."""
    group = ByHand("a", "c", "b")
    assert group.ring == ["a", "b", "c"]
    rounds = group.members["b"]._ring.rounds
    told = (Progress("a", 7, 7),)
    merged = rounds.merge(told, ())
    assert rounds.news("c", merged.moved).progress == told
    assert rounds.merge(told, ()).moved == []
