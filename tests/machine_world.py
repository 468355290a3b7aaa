"""The machine of one cluster node for tests: real replicas and queues, played store and clock.

A test tells the machine events as its shell would, with records encoded as the store has them, and
looks at the actions. `MachineWorld` plays the shell: it keeps commits until they are stored or
refused, fires timers when time passes, and asserts after every event that no plan was overlooked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from manual_clock import ManualClock
from replica_world import Replica as CopyOnDisk
from warren.broker.events import EventBus
from warren.cluster.actions import Action, Commit, PrepareCopy, SetTimer
from warren.cluster.effects import Effects
from warren.cluster.events import (
    CommitAnswered,
    CopyPrepared,
    Event,
    LinkUp,
    NewsArrived,
    QueuesLoaded,
    SessionBegun,
    SessionPending,
    StoreChanged,
    TimerFired,
    TurnEnded,
)
from warren.cluster.group_events import GroupEvents
from warren.cluster.link.control import BecomeMirror
from warren.cluster.node import ClusterNode
from warren.cluster.node_replica import NodeReplica, OpenLevel, ReplicaParts
from warren.cluster.node_states import NodeState, encode_state
from warren.cluster.sessions import Session, encode_session
from warren.cluster.synchronisation import SyncOfNode, SyncTerms
from warren.cluster.view import ClusterView
from warren.metadata.keys import group_key, node_key, node_state_key, policy_key, queue_key
from warren.metadata.store import Change, Delete, Put, Record
from warren.model.records import QueueName, QueueRecord
from warren.replication.classic.instructions import first_sequence_of
from warren.replication.classic.master import MasterBacking
from warren.replication.group_record import (
    GroupRecord,
    Member,
    add_right_of,
    decode_record,
    encode_record,
    make_member_id,
)
from warren.replication.replica import Replica
from warren.storage.queue.variable_queue import VariableQueue

NAME = ("/", "q")
UID = "uid"
ALL: Mapping[str, object] = {"ha-mode": "all", "ha-sync-mode": "automatic"}
EXACTLY_TWO: Mapping[str, object] = {**ALL, "ha-mode": "exactly", "ha-params": 2}

A = TypeVar("A")


# Records, and changes of the store that tell of them.


def member_of(node: str, joined_view: int = 1, life: str = "1", number: int = 1) -> Member:
    return Member(make_member_id(node, life, number), node, life, joined_view)


def group_on(nodes: str, insync: str = "", uid: str = UID, **other: Any) -> GroupRecord:
    """Return a group with a member on each node; the first one leads. In sync: all, or `insync`."""
    members = tuple(member_of(node, view) for view, node in enumerate(nodes, 1))
    ids = tuple(member.id for member in members if member.node in (insync or nodes))
    view = len(nodes)
    return replace(
        GroupRecord(uid, 1, view, members[0].id, members, ids, tuple(nodes)),
        **other,
    )


def session_of(node: str, life: str = "1") -> Session:
    return Session(node, life, 100 + ord(node[0]), "127.0.0.1", 1, 2, "http://", "1")


def session_change(node: str, life: str = "1") -> Change:
    """A session began; with an empty life, that it ended."""
    key = node_key(node)
    record = Record(key, encode_session(session_of(node, life)), 1) if life else None
    return Change(key, record)


def state_change(node: str, **state: Any) -> Change:
    key = node_state_key(node)
    return Change(key, Record(key, encode_state(NodeState(**state)), 1))


def group_change(group: GroupRecord | None, version: int, name: QueueName = NAME) -> Change:
    key = group_key(*name)
    record = None if group is None else Record(key, encode_record(group), version)
    return Change(key, record)


def queue_change(name: QueueName = NAME) -> Change:
    return Change(queue_key(*name), Record(queue_key(*name), b"", 1))


def policy_change(vhost: str = "/", operator: bool = False) -> Change:
    key = policy_key(vhost, "p", operator)
    return Change(key, Record(key, b"", 1))


class RecordTopology:
    """The topology of a node: records, a policy for each virtual host, and what is served here."""

    def __init__(self) -> None:
        self.records: dict[QueueName, QueueRecord] = {}
        self.policies: dict[str, Mapping[str, object]] = {}
        self.here: set[QueueName] = set()

    def add(self, node: str, name: QueueName = NAME, **other: Any) -> QueueRecord:
        self.records[name] = record = QueueRecord(*name, node=node, **other)
        return record

    def record_of(self, name: QueueName) -> QueueRecord | None:
        return self.records.get(name)

    def policy_of(self, record: QueueRecord) -> Mapping[str, object]:
        return self.policies.get(record.vhost, {})

    def is_here(self, name: QueueName) -> bool:
        return name in self.here

    def names(self) -> Iterator[QueueName]:
        return iter(tuple(self.records))

    def names_here(self, vhost: str | None = None) -> list[QueueName]:
        names = [name for name in self.records if name in self.here]
        return [name for name in names if vhost in (None, name[0])]

    def masters_declared(self) -> Counter[str]:
        return Counter(record.node for record in self.records.values())


def view_of(sessions: str = "", me: str = "a", linked: str | None = None) -> ClusterView:
    """Return the view of a node that knows the sessions of these nodes, and has links to them."""
    view = ClusterView(me, RecordTopology())
    view.incarnation = "1"
    view.apply([session_change(node) for node in sessions])
    view.linked.update(sessions if linked is None else linked)
    return view


def topology_of(view: ClusterView) -> RecordTopology:
    assert isinstance(view.topology, RecordTopology)
    return view.topology


class CopiesOnDisk:
    """The `CopyFiles` of a node without a disk: real variable queues, over played indexes."""

    def __init__(self) -> None:
        self.copies: dict[QueueName, CopyOnDisk] = {}
        self.open_vhosts = {"/"}

    def of(self, name: QueueName = NAME) -> CopyOnDisk:
        return self.copies.setdefault(name, CopyOnDisk())

    def is_open(self, vhost: str) -> bool:
        return vhost in self.open_vhosts

    def is_stream(self, name: QueueName) -> bool:
        return False

    def recovered(self, name: QueueName) -> Mapping[int, VariableQueue]:
        return dict(self.of(name).levels)

    def level(self, name: QueueName, number: int) -> VariableQueue:
        return self.of(name).level(number)


class MachineWorld:
    """`tell` has the machine handle an event and returns the actions; commits and timers wait."""

    def __init__(self, me: str = "a") -> None:
        self.clock = ManualClock()
        self.topology = RecordTopology()
        self.view = ClusterView(me, self.topology)
        self.files: Any = CopiesOnDisk()
        self.effects = Effects(self)
        self.is_memory_short = self.is_doubtful = self.is_woken = False
        self.is_checked = True
        """After each event, nothing may have been overlooked."""
        self.commits: list[Commit] = []
        self.version = 0
        self.next_sequences: dict[QueueName, int] = {}
        self.choices: list[list[str]] = []
        terms = SyncTerms(batch_size=10, bytes_per_s=0, is_blocking=False)
        self.events = EventBus(self.clock)
        sync = SyncOfNode(terms, self, self.effects, GroupEvents(self.events))
        parts = ReplicaParts(self.view, self.effects, self.files, self, sync)
        self.node = ClusterNode(parts, self)
        self._tokens = 0
        self._timers: list[tuple[int, int]] = []

    # What the machine asks and is answered at once.

    def wake(self) -> None:
        self.is_woken = True

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def new_token(self) -> str:
        self._tokens += 1
        return UID if self._tokens == 1 else f"{UID}{self._tokens}"

    def next_sequence(self, name: QueueName) -> int:
        return self.next_sequences.get(name, 0)

    def is_disk_doubtful(self, vhost: str) -> bool:
        return self.is_doubtful

    def choose(self, nodes: Sequence[str], count: int) -> Sequence[str]:
        self.choices.append(list(nodes))
        return list(nodes)[:count]

    # The queues of this node.

    def lead(self, name: QueueName, replica: Replica, open_level: OpenLevel) -> MasterBacking:
        if name in self.topology.here:
            return MasterBacking(open_level(0), f"{self.view.name}/1", replica)
        mirror = replica.mirror
        assert mirror is not None
        assert replica.record is not None
        backing = mirror.levels[0] if 0 in mirror.levels else open_level(0)
        master = MasterBacking(backing, f"{self.view.name}/1", replica)
        master.inherit(mirror, first_sequence_of(replica.record.epoch))
        self.topology.here.add(name)
        return master

    def depose(self, name: QueueName, master: MasterBacking, is_mirrored: bool) -> bool:
        if not is_mirrored:
            return False
        master.depose()
        self.topology.here.discard(name)
        return True

    # Events.

    def tell(self, event: Event) -> list[Action]:
        actions = self.node.handle(event)
        for action in actions:
            if isinstance(action, Commit):
                self.commits.append(action)
            elif isinstance(action, SetTimer):
                self._timers.append((self.now_ms() + action.delay_ms, action.token))
        if self.is_checked:
            assert self.node.overlooked() == []
        return actions

    def changed(self, *changes: Change) -> list[Action]:
        return self.tell(StoreChanged(changes))

    def end_turn(self) -> list[Action]:
        actions = []
        while self.is_woken:
            self.is_woken = False
            actions += self.tell(TurnEnded())
        return actions

    def advance(self, by_ms: int) -> list[Action]:
        """Let time pass; timers that fall due fire in order, each at its own time."""
        end_ms, actions = self.now_ms() + by_ms, []
        while self._timers and min(self._timers)[0] <= end_ms:
            at_ms, token = timer = min(self._timers)
            self._timers.remove(timer)
            self.clock.advance(max(0, at_ms - self.now_ms()))
            actions += self.tell(TimerFired(token))
        self.clock.advance(end_ms - self.now_ms())
        return actions

    def store(self) -> list[Action]:
        """Store everything that waits to be, as an uncontended store would; return what follows."""
        actions = self.end_turn()
        while self.commits:
            commit = self.commits.pop(0)
            changes = tuple(map(self._stored, commit.operations))
            actions += self.changed(*changes)
            actions += self.tell(CommitAnswered(commit.token, True))
            actions += self.end_turn()
        return actions

    def _stored(self, operation: Put | Delete) -> Change:
        self.version += 1
        if isinstance(operation, Delete):
            return Change(operation.key, None)
        return Change(operation.key, Record(operation.key, operation.value, self.version))

    def refuse(self) -> list[Action]:
        """Refuse everything that waits to be stored."""
        commits, self.commits = self.commits, []
        return [a for commit in commits for a in self.tell(CommitAnswered(commit.token, False))]

    # How a test begins.

    def begin(self, others: str = "", life: str = "1") -> list[Action]:
        """Start the node, in a cluster with these others, to all of which there is a link."""
        self.tell(SessionPending(life))
        actions = self.tell(QueuesLoaded())
        me = self.view.name
        actions += self.changed(session_change(me, life), *map(session_change, others))
        actions += self.tell(SessionBegun())
        for node in others:
            actions += self.tell(LinkUp(node))
        return actions

    def declare(self, policy: Mapping[str, object] = ALL, **other: Any) -> list[Action]:
        """Declare a queue whose master is this node."""
        self.topology.policies["/"] = policy
        self.topology.add(self.view.name, **other)
        self.topology.here.add(NAME)
        return self.changed(queue_change())

    def led(self, others: str, policy: Mapping[str, object] = ALL, insync: str = "") -> Member:
        """Lead a queue whose mirrors are on these nodes, in sync: all, or `insync`."""
        self.declare(policy)
        self.store()
        return self.regroup(others, insync)

    def regroup(self, others: str, insync: str = "") -> Member:
        """Have the record say that mirrors are on these nodes; return this node's member."""
        me = self.host.replica.me
        self.version += 10
        before = self.view.groups[NAME].record
        members = (replace(me, joined_view=1), *(member_of(n, 2 + i) for i, n in enumerate(others)))
        ids = tuple(m.id for m in members if m.node == me.node or m.node in (insync or others))
        group = replace(
            before,
            view=before.view + 10,
            members=members,
            insync=ids,
            recoverable=tuple(m.node for m in members),
        )
        self.changed(group_change(group, self.version))
        return me

    def followed(self, group: GroupRecord, policy: Mapping[str, object] = ALL) -> NodeReplica:
        """Be a mirror, in a group of other nodes, which have taken this one in."""
        self.topology.policies["/"] = policy
        self.topology.add(group.members[0].node)
        self.version += 1
        self.changed(queue_change(), group_change(group, self.version))
        actions = self.tell(NewsArrived(BecomeMirror(*NAME, group.uid)))
        (prepare,) = only(actions, PrepareCopy)
        self.tell(CopyPrepared(prepare.name, prepare.uid))
        joined = add_right_of(group, group.live[-1].id, self.host.replica.me)
        self.version += 1
        self.changed(group_change(joined, self.version))
        return self.host

    # What there is.

    @property
    def host(self) -> NodeReplica:
        return self.node.replicas[NAME]

    @property
    def group(self) -> GroupRecord:
        return self.view.groups[NAME].record

    def stories(self) -> list[str]:
        return [entry.what for entry in self.node.stories.of(NAME)]


def only(actions: Iterable[Action], kind: type[A]) -> list[A]:
    return [action for action in actions if isinstance(action, kind)]


def proposed(actions: Iterable[Action]) -> list[GroupRecord]:
    """Return the groups' records that these actions want to be stored."""
    puts = [op for commit in only(actions, Commit) for op in commit.operations]
    return [decode_record(op.value) for op in puts if isinstance(op, Put)]
