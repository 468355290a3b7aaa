"""Queues that are declared with all their copies: who gets a place, and what becomes of them."""

from __future__ import annotations

from machine_cluster import MachineCluster
from machine_world import (
    ALL,
    EXACTLY_TWO,
    NAME,
    UID,
    MachineWorld,
    group_change,
    group_on,
    only,
    proposed,
    queue_change,
    session_change,
    state_change,
    topology_of,
    view_of,
)
from replica_world import message
from warren.cluster.actions import PrepareCopy, SendFrame, TellNode
from warren.cluster.early_frames import EARLY_BYTES_MAX, EarlyFrames
from warren.cluster.events import FramesArrived, LinkDown, NewsArrived
from warren.cluster.founding import founding_group, founding_place
from warren.cluster.link.control import OutOfReach
from warren.cluster.view import ClusterView
from warren.flow.alarms import Resource
from warren.model.fields import Field, Table
from warren.replication.gm.frames import Activity, CheckNeighbours, Progress, decode_frames
from warren.replication.group_record import GroupRecord, Member, create_together, node_of


def place(node: str) -> Member:
    return Member(f"{node}/1/0", node, "1")


def together(nodes: str) -> GroupRecord:
    founder, *mirrors = map(place, nodes)
    return create_together(UID, founder, mirrors)


def founded(view: ClusterView, node: str = "a", is_clean: bool = True) -> str:
    """Nodes of the group that a queue of this node begins with; empty if it begins with none."""
    record = topology_of(view).add(node)
    del topology_of(view).records[NAME]
    group = founding_group(
        view, record, UID, lambda nodes, count: nodes[:count], lambda _: is_clean
    )
    if group is None:
        return ""
    assert group.insync == tuple(member.id for member in group.live)
    assert group.recoverable == tuple(member.node for member in group.live)
    assert node_of(group.leader) == node
    return "".join(group.recoverable)


def with_policy(view: ClusterView, policy: object) -> ClusterView:
    topology_of(view).policies["/"] = policy  # type: ignore[assignment]
    return view


def test_a_queue_begins_with_the_copies_that_its_policy_wants() -> None:
    assert founded(with_policy(view_of("bc"), ALL)) == "abc"
    assert founded(with_policy(view_of("bc"), ALL), node="b") == "bac"
    assert founded(with_policy(view_of("bc"), EXACTLY_TWO)) == "ab"
    assert founded(with_policy(view_of("bc"), {})) == ""


def test_who_cannot_be_reached_or_has_no_room_is_invited_instead() -> None:
    assert founded(with_policy(view_of("bc", linked="b"), ALL)) == ""
    view = with_policy(view_of("bc"), ALL)
    view.apply([state_change("b", unreachable=("c",))])
    assert founded(view) == ""
    view.apply([state_change("b", alarms={Resource.DISK.value: 1})])
    assert founded(view) == ""
    view.apply([state_change("b")])
    assert founded(view) == "abc"


def test_disks_that_may_have_an_earlier_queue_of_that_name_are_prepared_first() -> None:
    assert founded(with_policy(view_of("bc"), ALL), is_clean=False) == ""


def test_a_master_that_the_policy_does_not_name_begins_alone() -> None:
    policy = {"ha-mode": "nodes", "ha-params": ["b", "c"]}
    assert founded(with_policy(view_of("bc"), policy)) == "abc"  # no mirror is in sync before it
    assert founded(with_policy(view_of("bc"), policy), node="b") == "bc"


def test_streams_and_exclusive_queues_do_not_begin_so() -> None:
    view = with_policy(view_of("bc"), ALL)
    stream = Table([("x-queue-type", Field("S", b"stream"))])
    for other in ({"arguments": stream}, {"owner": "connection"}):
        record = topology_of(view).add("a", **other)
        assert founding_group(view, record, UID, lambda n, k: n[:k], lambda _: True) is None


def test_a_place_is_for_the_life_that_it_was_given_to() -> None:
    view = view_of("bc")
    assert founding_place(view, together("abc")) == together("abc").members[0]
    assert founding_place(view, together("bc")) is None
    view.incarnation = "2"
    assert founding_place(view, together("abc")) is None


def declared(names: str) -> MachineCluster:
    """A cluster with a queue of the first node, declared with a copy on each."""
    cluster = MachineCluster(names)
    cluster.declare_with(together(names))
    return cluster


def bodies_on(cluster: MachineCluster, name: str) -> list[bytes]:
    return [body for _, body in cluster.nodes[name].files.of().drained()[0]]


def test_all_take_their_places_at_once_and_nothing_else_is_stored() -> None:
    cluster = declared("abc")
    for node in cluster.nodes.values():
        assert node.host.replica.me.id == f"{node.view.name}/1/0"
        assert node.commits == []
    cluster.run(3_000)
    assert (cluster.in_sync, cluster.group.view) == ("abc", 1)


def test_what_is_confirmed_is_on_all_of_them() -> None:
    cluster = declared("abc")
    cluster.nodes["a"].host.replica.master.publish(message(7), 0, None, 0)
    cluster.run(100)
    for name in "bc":
        assert bodies_on(cluster, name) == [b"7"]


def test_the_master_may_die_before_anybody_has_heard_of_it() -> None:
    cluster = declared("abc")
    cluster.end("a")
    cluster.run(3_000)
    assert (cluster.leader, cluster.in_sync) == ("b", "bc")
    cluster.nodes["b"].host.replica.master.publish(message(1), 0, None, 0)
    cluster.run(100)
    assert bodies_on(cluster, "c") == [b"1"]


def test_the_death_of_the_master_of_a_queue_at_rest_is_one_transaction() -> None:
    cluster = declared("abc")
    cluster.nodes["a"].host.replica.master.publish(message(7), 0, None, 0)
    cluster.run(3_000)
    before = cluster.commits
    cluster.end("a")
    cluster.run(3_000)
    assert (cluster.leader, cluster.in_sync) == ("b", "bc")
    assert cluster.commits == before + 1
    assert cluster.nodes["b"].host.replica.master.length == 1


def test_the_death_of_the_only_mirror_is_one_transaction() -> None:
    cluster = declared("ab")
    cluster.run(3_000)
    before = cluster.commits
    cluster.end("b")
    cluster.run(3_000)
    assert (cluster.leader, cluster.in_sync, cluster.commits) == ("a", "a", before + 1)
    assert [member.node for member in cluster.group.members] == ["a"]


def test_frames_that_come_before_the_record_are_heard_with_it() -> None:
    """Node a has read the record and sends what it has to say; b and c have not."""
    cluster = MachineCluster("abc")
    leader = cluster.nodes["a"]
    for each in cluster.nodes.values():
        each.topology.policies["/"] = ALL
        each.topology.add("a")
    leader.topology.here.add(NAME)
    change = group_change(together("abc"), 1)
    cluster._note("a", leader.changed(queue_change(), change))
    leader.host.replica.master.publish(message(7), 0, None, 0)
    cluster.run(100)
    for name in "bc":
        cluster._note(name, cluster.nodes[name].changed(queue_change(), change))
    cluster.run()
    for name in "bc":
        assert bodies_on(cluster, name) == [b"7"]


def test_a_place_is_taken_though_another_group_had_one_here() -> None:
    """The store tells a deletion and the next declare as one change: the old copy goes first."""
    cluster = declared("ab")
    cluster.run(1_000)
    world = cluster.nodes["b"]
    again = create_together("another", place("a"), [place("b")])
    world.changed(group_change(again, 9))
    assert world.host.replica.uid == "another"


def test_a_member_without_a_link_is_reported_to_the_master() -> None:
    world = MachineWorld("b")
    world.begin("ac")
    world.tell(LinkDown("c", 0))
    world.topology.policies["/"] = ALL
    world.topology.add("a")
    world.changed(queue_change(), group_change(together("abc"), 1))
    actions = world.advance(120_000)
    report = OutOfReach(UID, "b/1/0", "c/1/0")
    assert TellNode("a", report) in actions


def test_a_founder_whose_session_has_ended_is_put_out() -> None:
    world = MachineWorld("a")
    world.begin("bc")
    world.changed(session_change("c", ""))
    world.topology.policies["/"] = ALL
    world.topology.add("a")
    world.topology.here.add(NAME)
    actions = world.changed(queue_change(), group_change(together("abc"), 1))
    assert not proposed(actions)[-1].is_live("c/1/0")


def test_nothing_is_prepared_or_asked_for() -> None:
    world = MachineWorld("b")
    world.begin("a")
    world.topology.policies["/"] = ALL
    world.topology.add("a")
    actions = world.changed(queue_change(), group_change(together("ab"), 1))
    assert only(actions, PrepareCopy) == []
    assert only(actions, TellNode) == []
    assert world.host.replica.mirror is not None
    assert world.host.replica.mirror.lacking == 0


def test_early_frames_have_a_bound_and_the_oldest_group_goes_first() -> None:
    early, payload = EarlyFrames(), bytes(EARLY_BYTES_MAX // 4)

    def activity(uid: str, stream: int, payload: bytes = payload) -> Activity:
        progress = Progress("a/1/0", 1, 0, (1,), (len(payload),))
        return Activity(uid, 1, 1, "a/1/0", stream, 1, (progress,))

    for uid in ("1", "2", "3", "4"):
        early.keep(activity(uid, 7), (payload,))
    assert early.take("1") == ([], {"a/1/0": 7}), "the member has to ask for it"
    early.keep(activity("4", 8, b"more"), (b"more",))
    frames, missed = early.take("4")
    assert [frame.stream for body in frames for frame, _ in decode_frames(body)] == [7, 8]  # type: ignore[union-attr]
    assert missed == {}
    assert early.take("4") == ([], {})
    assert [len(early.take(uid).frames) for uid in ("2", "3")] == [1, 1]


def test_a_member_asks_for_what_was_dropped_before_it_knew_of_itself() -> None:
    world = MachineWorld("b")
    world.begin("a")
    joined = world.followed(group_on("ab"))
    world.end_turn()
    world.node._effects.begin()
    joined.replica.frames_lost("a/1/1", 3)
    (asked,) = only(world.node._effects.end(), SendFrame)
    ((frame, _),) = decode_frames(b"".join(asked.buffers))
    assert asked.node == "a"
    assert isinstance(frame, CheckNeighbours)
    assert frame.lost_stream == 3


def test_frames_of_nobody_are_kept_and_heeded_by_nobody() -> None:
    world = MachineWorld("b")
    world.begin("a")
    sender = MachineWorld("a")
    sender.begin("b")
    sender.topology.policies["/"] = ALL
    sender.topology.add("a")
    sender.topology.here.add(NAME)
    actions = sender.changed(queue_change(), group_change(together("ab"), 1))
    frames = only(actions, SendFrame)
    assert frames != []
    for frame in frames:
        assert world.tell(FramesArrived(b"".join(frame.buffers))) == []
    assert world.tell(NewsArrived(OutOfReach(UID, "a/1/0", "b/1/0"))) == []
