"""A cluster of machines for tests: the real machines of several nodes, and one store.

What `tests/cluster_simulation` does with time, disks and clients, and seeds, is left out here: a
script of a few lines says what happens, and all of it happens in the same order every time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from machine_world import ALL, NAME, MachineWorld, group_change, queue_change, session_change
from warren.cluster.actions import Action, Commit, PrepareCopy, SendFrame, SetTimer, TellNode
from warren.cluster.events import (
    CommitAnswered,
    CopyPrepared,
    Event,
    FramesArrived,
    NewsArrived,
)
from warren.metadata.store import Change, Put, Record
from warren.replication.group_record import GroupRecord, node_of


class MachineCluster:
    """Machines of several nodes with one store, and links that lose nothing.

    `run` carries everything until nothing is left to do; time passes only when a test says so.
    """

    def __init__(self, names: str) -> None:
        self.nodes = {name: MachineWorld(name) for name in names}
        self.cut: set[str] = set()
        """Nodes that there are no links to or from."""
        self.told: list[Action] = []
        """All that is not carried out here: what clients are told, for example."""
        self.commits = 0
        """Number of transactions that were stored."""
        self._version = 0
        self._actions: list[tuple[str, Action]] = []
        for name, node in self.nodes.items():
            self._note(name, node.begin("".join(other for other in names if other != name)))

    def declare(self, node: str, policy: Mapping[str, object] = ALL) -> None:
        for name, each in self.nodes.items():
            each.topology.policies["/"] = policy
            each.topology.add(node)
            if name == node:
                each.topology.here.add(NAME)
        self.changed(queue_change())
        self.run()

    def declare_with(self, group: GroupRecord) -> None:
        """Declare a queue together with its group; nothing is carried out yet."""
        self._version += 1
        for name, each in self.nodes.items():
            each.topology.policies["/"] = ALL
            each.topology.add(node_of(group.leader))
            if name == node_of(group.leader):
                each.topology.here.add(NAME)
        self.changed(queue_change(), group_change(group, self._version))

    def changed(self, *changes: Change) -> None:
        for name, node in self.nodes.items():
            self._note(name, node.changed(*changes))

    def tell(self, name: str, event: Event) -> None:
        self._note(name, self.nodes[name].tell(event))

    def end(self, name: str) -> MachineWorld:
        """A node is killed: its session ends."""
        node = self.nodes.pop(name)
        self.changed(session_change(name, ""))
        return node

    def run(self, for_ms: int = 0) -> None:
        for _ in range(10_000):
            for name, node in tuple(self.nodes.items()):
                node.files.of().sync()
                self._note(name, node.end_turn())
            if not self._actions:
                if not for_ms:
                    return
                for_ms -= 1
                for name, node in tuple(self.nodes.items()):
                    self._note(name, node.advance(1))
            actions, self._actions = self._actions, []
            for name, action in actions:
                self._perform(name, action)
        raise AssertionError("the machines do not come to rest")

    def _note(self, name: str, actions: Iterable[Action]) -> None:
        self._actions += [(name, action) for action in actions]

    def _perform(self, name: str, action: Action) -> None:
        match action:
            case SendFrame(node, buffers) if not self.cut & {name, node}:
                self._deliver(node, FramesArrived(b"".join(buffers)))
            case TellNode(node, news) if not self.cut & {name, node}:
                self._deliver(node, NewsArrived(news))
            case PrepareCopy(queue, uid):
                self._deliver(name, CopyPrepared(queue, uid))
            case Commit():
                self._commit(name, action)
            case SendFrame() | TellNode() | SetTimer():
                pass
            case _:
                self.told.append(action)

    def _deliver(self, name: str, event: Event) -> None:
        if name in self.nodes:
            self.tell(name, event)

    def _commit(self, name: str, commit: Commit) -> None:
        stored = next(iter(self.nodes.values())).view.groups.get(NAME)
        version = 0 if stored is None else stored.version
        is_stored = all(check.version == version for check in commit.checks)
        self.commits += is_stored
        for operation in commit.operations if is_stored else ():
            self._version += 1
            value = operation.value if isinstance(operation, Put) else None
            record = None if value is None else Record(operation.key, value, self._version)
            self.changed(Change(operation.key, record))
        self._deliver(name, CommitAnswered(commit.token, is_stored))

    @property
    def group(self) -> GroupRecord:
        return next(iter(self.nodes.values())).group

    @property
    def leader(self) -> str:
        return node_of(self.group.leader)

    @property
    def in_sync(self) -> str:
        return "".join(sorted(map(node_of, self.group.insync)))
