"""A witness that sees the whole cluster at once, as nobody in it can, and says what must never be.

While things happen:

    P1, 7-10  at no time do two nodes confirm or deliver: epochs that never go back, one node each
    E1        one leader in each epoch
    E2        epochs never go back at a node
    E3        what is confirmed is on the disk of every member of the stored in-sync set
    E4        whoever confirms or delivers has a session
    E5        who leads was in sync, unless the policy takes the loss
    FIFO      in an epoch messages are first delivered in the order of their numbers
    order     whoever leads: a message without the mark `redelivered` was never delivered before,
              and comes after all that its publisher published before what was delivered

At the end, when all copies are where they should be and the cluster is at rest:

    P2        what was confirmed and not purged was acknowledged by a consumer, or is still there
    E3        every copy has the same messages under the same numbers, and each message once
    and each publish of a living connection has been answered
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster_simulation.order import Order, Seen
from gm_invariants import Violation
from warren.queues.queue import Queue
from warren.replication.group_changes import Promoted, news_between
from warren.replication.group_record import GroupRecord, decode_record, node_of
from warren.storage.queue.variable_queue import VariableQueue
from warren.wire.codec import Ack, Delivery, Message

if TYPE_CHECKING:
    from cluster_simulation.clients import ClientChannel
    from cluster_simulation.process import Process
    from cluster_simulation.world import World

FETCHES_MAX = 100_000


class Witness:
    def __init__(self, world: World) -> None:
        self._world = world
        self.transient: set[int] = set()
        self.confirmed: set[int] = set()
        self.acknowledged: set[int] = set()
        self.rejected: set[int] = set()
        self.forgiven: set[int] = set()
        """Purged, or lost in a way that was allowed."""
        self.has_begun_again = False
        """True if a master began with what a disk had, which does not count publishes."""
        self.founded_together = 0
        """Groups that began with more than one copy."""
        self.unsafe_promotions = 0
        self.promotions = 0
        self.deliveries = 0
        self.heard_us: dict[str, int] = {}
        """When clients on each node last heard a confirm."""
        self.heard_safe_us: dict[str, int] = {}
        """The same for confirms that mean a disk: nobody had acknowledged the message."""
        self.fed_us: dict[str, int] = {}
        """When clients on each node last got a message."""
        self._publishers: dict[int, tuple[int, int]] = {}
        """Connection and priority of each body."""
        self._epoch = 0
        self._actor = ""
        self._led: dict[Process, int] = {}
        self._epochs_seen: dict[Process, int] = {}
        self.order = Order()

    # The record.

    def stored(self, before: bytes | None, after: bytes | None) -> None:
        if before is None and after is not None:
            self.founded_together += len(decode_record(after).members) > 1
        if before is None or after is None:
            return
        self._changed(decode_record(before), decode_record(after))

    def _changed(self, before: GroupRecord, after: GroupRecord) -> None:
        if after.view <= before.view or after.epoch < before.epoch:
            raise Violation(f"view or epoch went back: {before} -> {after}")
        if after.leader != before.leader and after.epoch == before.epoch:
            raise Violation(f"E1: two leaders in one epoch: {before} -> {after}")
        for news in news_between(before, after):
            if isinstance(news, Promoted):
                self.promotions += 1
                self._promoted(news, before, after)

    def _promoted(self, news: Promoted, before: GroupRecord, after: GroupRecord) -> None:
        if not news.is_safe:
            if not self._world.may_lose:
                raise Violation(f"E5: a leader that was not in sync: {before} -> {after}")
            self.has_begun_again = True
            self.unsafe_promotions += 1
            self.forgiven |= self.confirmed
        elif before.find(after.leader) is None:
            # Begun again with what a disk had: nobody was left who had the rest.
            self.forgiven |= self.transient
            self.has_begun_again = True

    def saw_event(self, process: Process) -> None:
        """A process has handled an event: which epoch does it know of?"""
        group = process.machine.view.group_of(self._world.queue_name)
        epoch = 0 if group is None else group.epoch
        if group is not None and epoch < self._epochs_seen.get(process, 0):
            raise Violation(f"E2: {process.name} goes back to epoch {epoch}")
        self._epochs_seen[process] = max(epoch, self._epochs_seen.get(process, 0))

    # What leaves nodes.

    def served(self, process: Process, stream: object, events: list[Any]) -> None:
        """A node has written this to another one that asks it for a queue."""
        for event in events:
            if type(event) is Delivery:
                self.delivers(process, stream, event)
            elif type(event) is Ack:
                self.acts(process, "confirms")

    def acts(self, process: Process, what: str) -> None:
        name, session = process.name, self._world.store.session_of(process.name)
        if session is None or session.incarnation != process.incarnation:
            raise Violation(f"E4: {name} {what} and has no session")
        host = process.machine.replicas.get(self._world.queue_name)
        if host is not None and host.replica.master is not None and host.replica.record is not None:
            self._led[process] = host.replica.record.epoch
        epoch = self._led.get(process)
        if epoch is None:
            return  # not mirrored yet
        if epoch < self._epoch:
            raise Violation(f"P1: {name} {what} in epoch {epoch} after {self._epoch}")
        if epoch == self._epoch and name != self._actor:
            raise Violation(f"P1: {name} {what}, and {self._actor} does")
        if epoch > self._epoch:
            self._epoch, self._actor = epoch, name
            self.order.begin_epoch()

    def delivers(self, process: Process, stream: object, delivery: Delivery) -> None:
        """A master has written a delivery, to a client or to another node: that is the `stream`."""
        self.acts(process, "delivers")
        self.deliveries += 1
        self.order.delivers((process, process.loop.turns), stream, self._seen(process, delivery))

    def _seen(self, process: Process, delivery: Delivery) -> Seen:
        body = int(delivery.message.body)
        # A body that was taken twice has two numbers, and nobody sees which of them is delivered.
        is_sure = not self.has_begun_again
        sequence = process.storage.sequence_of(delivery.message.body) if is_sure else None
        publisher, level = self._publishers[body]
        return Seen(body, delivery.redelivered, publisher, level, sequence)

    # Clients.

    def published(self, connection: int, body: int, message: Message) -> None:
        level = max(0, message.properties.priority) if self._world.max_priority is not None else 0
        self._publishers[body] = (connection, level)
        if not message.properties.persistent:
            self.transient.add(body)

    def heard_confirm(self, process: Process, body: int) -> None:
        self.confirmed.add(body)
        self.heard_us[process.name] = self._world.schedule.now_us
        if body not in self.acknowledged:
            self.heard_safe_us[process.name] = self._world.schedule.now_us
        record = self._world.record
        if record is None or body in self.transient or body in self.acknowledged:
            return
        leader = self._world.nodes[node_of(record.leader)]
        if leader.is_up and leader.has_safe(body):
            for member in record.insync:
                if not self._world.nodes[node_of(member)].has_safe(body):
                    raise Violation(f"E3: {body} is confirmed, and {member} lacks it: {record}")

    def received(self, connection: ClientChannel, body: int, is_redelivered: bool) -> None:
        self.fed_us[connection.process.name] = self._world.schedule.now_us

    def purged(self, process: Process) -> None:
        host = process.machine.replicas.get(self._world.queue_name)
        master = None if host is None else host.replica.master
        unacked = () if master is None else master.unacked.values()
        kept = {int(queued.message.body) for queued in unacked}
        self.forgiven |= self._publishers.keys() - kept

    # The end.

    def reckon(self) -> None:
        """All is well, and everybody has a copy in sync. It takes the copies to pieces."""
        world = self._world
        processes = [node.process for node in world.nodes.values() if node.process is not None]
        leaders = [p for p in processes if isinstance(world.queue_at(p), Queue)]
        if len(leaders) != 1:
            raise Violation(f"{len(leaders)} leaders at the end: {world.record}")
        contents = {process.name: self._contents(process) for process in processes}
        here = contents[leaders[0].name]
        bodies = [int(body) for level in here.values() for _, body in level]
        left = set(bodies)
        if len(bodies) != len(left) and not self.has_begun_again:
            raise Violation(f"messages are there twice: {sorted(bodies)}")
        lost = self.confirmed - self.acknowledged - self.forgiven - left
        # Without acknowledgements, what is on its way to a client when a link breaks is gone.
        if lost and not any(no_ack for _, no_ack in world.consumers):
            raise Violation(f"P2: confirmed and lost: {sorted(lost)[:10]}")
        unheard_of = left - self._publishers.keys()
        if unheard_of:
            raise Violation(f"nobody published {sorted(unheard_of)[:10]}")
        for name, there in contents.items():
            if there != here:
                raise Violation(f"E3: {leaders[0].name} has {here}, and {name} {there}")

    def _contents(self, process: Process) -> dict[int, list[tuple[int, bytes]]]:
        replica = process.machine.replicas[self._world.queue_name].replica
        levels: Any = (
            replica.mirror.levels if replica.mirror is not None else replica.master.level_queues()  # type: ignore[union-attr]
        )
        return {number: _drain(process, queue) for number, queue in levels.items() if queue.length}


def _drain(process: Process, queue: VariableQueue) -> list[tuple[int, bytes]]:
    taken: list[tuple[int, bytes]] = []
    for _ in range(FETCHES_MAX):
        if not queue.length:
            return taken
        queued = queue.fetch(False)
        if queued is None:
            for index in process.storage.indexes.values():
                index.finish_reads()
        else:
            taken.append((queued.sequence, bytes(queued.message.body)))
    raise AssertionError("the queue does not end")
