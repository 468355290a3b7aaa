"""The home of a mirrored queue comes to this node, leaves it, or goes from one node to another.

Clients of this node hold on to nothing of that: what they published and have no answer to, and what
they consume, is taken along.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from warren.cluster.asker import Asker
from warren.cluster.control import OpenQueue
from warren.cluster.inbox import Inbox
from warren.cluster.link_consumer import LinkConsumer
from warren.cluster.remote_queue import RemoteQueue, Unconfirmed
from warren.mirror.group_record import node_of
from warren.mirror.master import MasterBacking
from warren.mirror.origins import make_room_for
from warren.model.records import QueueRecord
from warren.queues.boundary import REJECTED, TAKEN, AbstractQueue
from warren.queues.queue import Queue
from warren.server.context import ConnectionContext
from warren.streams.queue import StreamQueue

if TYPE_CHECKING:
    from warren.server.cluster import Cluster


HOMELESS_S_MAX: Final = 60.0
"""As long as RabbitMQ's channels try again when a mirrored queue has no master."""


class Homes:
    def __init__(self, cluster: Cluster, context: ConnectionContext) -> None:
        self._cluster = cluster
        self._context = context
        self._mirrors = cluster.mirrors
        self.waiting_asker = Asker("", asyncio.get_running_loop().create_future)
        """Where what is on its way to a queue waits while that has no home."""
        context.brake.watch(self.waiting_asker.credit)
        self.lost_asker = Asker("", asyncio.get_running_loop().create_future)
        self.lost_asker.is_lost = True
        self._patience: dict[RemoteQueue, asyncio.TimerHandle] = {}
        """With queues that have no home: when it ends."""

    def note(self, remote: RemoteQueue) -> None:
        """A queue of another node has been made."""
        remote.origin = self._mirrors.new_origin()
        self.note_mirrored(remote)

    def note_mirrored(self, remote: RemoteQueue) -> None:
        """Whether there is another copy that could be its home if this one is lost."""
        remote.is_mirrored = self.may_have_home(remote.record)

    def may_have_home(self, record: QueueRecord) -> bool:
        """Somebody who runs has, or may have, a copy that it could lead with."""
        return bool(self._mirrors.groups.survivors_of(record)) or self._may_return(record)

    def _may_return(self, record: QueueRecord) -> bool:
        """A node that runs has had a copy in an earlier life: it may be on its disk."""
        group = self._mirrors.groups.group_of(record)
        if group is None or not record.durable:
            return False
        return not set(self._cluster.running_nodes).isdisjoint(map(node_of, group.insync))

    def node_is_up(self, node: str) -> None:
        """Clients of queues that only this node can bring back need not be refused any more."""
        for name, (group, _) in tuple(self._mirrors.groups.records.items()):
            if node in map(node_of, group.insync):
                self.rehome(name)

    def node_is_down(self, node: str) -> None:
        """Queues there have no home, until one of their copies leads."""
        self._rehome_all_of(node)

    def link_stands(self, node: str) -> None:
        """Queues there were homeless if that took long."""
        self._rehome_all_of(node)

    def _rehome_all_of(self, node: str) -> None:
        for name, (group, _) in tuple(self._mirrors.groups.records.items()):
            if node_of(group.leader) == node:
                self.rehome(name)

    def rehome(self, name: tuple[str, str], is_lost: bool = False) -> None:
        """Where a mirrored queue is now; if that is where it `is_lost`, nowhere for the moment."""
        vhost = self._context.broker.vhosts.get(name[0])
        queue = vhost.queues.get(name[1]) if vhost is not None else None
        if not isinstance(queue, RemoteQueue):
            return
        self.note_mirrored(queue)
        asked = self._cluster.links.nodes.get(self._mirrors.groups.home_of(queue.record))
        is_known = asked is not None and not asked.asker.is_lost
        if asked is not None and is_known and not (is_lost and asked.asker is queue.asker):
            self._be_patient_no_more(queue)
            queue.move(asked.asker)
        elif queue.is_mirrored:
            self.await_home(queue)
        else:
            self._lose(queue)

    def await_home(self, queue: RemoteQueue) -> None:
        """Somebody will come forward, or the queue is down."""
        queue.move(self.waiting_asker)
        if queue not in self._patience:
            loop = asyncio.get_running_loop()
            self._patience[queue] = loop.call_later(HOMELESS_S_MAX, self._give_up, queue)

    def _be_patient_no_more(self, queue: RemoteQueue) -> None:
        timer = self._patience.pop(queue, None)
        if timer is not None:
            timer.cancel()

    def _give_up(self, queue: RemoteQueue) -> None:
        """Nobody has come forward."""
        self._be_patient_no_more(queue)
        if queue.asker is self.waiting_asker:
            queue.is_mirrored = False
            self._lose(queue)

    def _lose(self, queue: RemoteQueue) -> None:
        """Whoever waits is told that the queue is down."""
        self._be_patient_no_more(queue)
        queue.move(self.lost_asker)
        queue.lost()

    def take_home(self, remote: AbstractQueue, master: MasterBacking) -> None:
        """This node leads the queue now, and has what it had."""
        assert isinstance(remote, RemoteQueue)
        self._be_patient_no_more(remote)
        vhost = self._context.broker.vhosts[remote.record.vhost]
        settings = vhost.policies.settings_of(remote.record)
        queue = self._context.queue_factory.make_promoted(remote.record, settings, master)
        for level in master.level_queues().values():
            level.on_loaded = queue.loaded
        follow_freezing(queue, master)
        vhost.replace_queue(queue)
        consumers, unconfirmed = remote.come_home()
        remote.asker.came_home(remote)
        for entry in unconfirmed:
            self._publish_again(queue, master, entry, entry.number <= remote.doubtful)
        for consumer in consumers:
            consumer.queue = queue
            consumer.is_parked = False
            queue.add_consumer(consumer)
        queue.loaded()  # times and limits may be up by now, and nobody else may ever look

    def leave_home(self, queue: Queue, master: MasterBacking) -> None:
        """This node does not lead the queue any more; clients here go on with whoever does."""
        waiting = master.depose()
        vhost = self._context.broker.vhosts[queue.record.vhost]
        remote = RemoteQueue(queue.record, queue.settings, self.waiting_asker)
        remote.is_mirrored = True
        remote.origin = master.origin
        queue.stop()
        if isinstance(queue, StreamQueue):
            queue.hand_on_consumers()
        vhost.replace_queue(remote)
        self._cluster.links.moved(queue)
        queue.wake_waiting()
        local = [c for c in queue.consumers if not isinstance(c, LinkConsumer)]
        remote.begin_elsewhere(master.local_number, waiting, local)
        self.rehome((queue.record.vhost, queue.record.name))

    def _publish_again(
        self, queue: Queue, master: MasterBacking, entry: Unconfirmed, is_doubtful: bool
    ) -> None:
        publisher = entry.publisher
        if entry.number <= master.local_number:
            if publisher is not None:
                master.when_settled(lambda: publisher.confirmed(entry.sequence))
            return
        publish = queue.publish_again if is_doubtful else queue.publish
        outcome = publish(entry.message, publisher, entry.sequence)
        if publisher is not None and outcome == TAKEN:
            publisher.confirmed(entry.sequence)
        elif publisher is not None and outcome == REJECTED:
            publisher.rejected(entry.sequence)


def make_inbox(queue: AbstractQueue, control: OpenQueue) -> Inbox:
    """A mirrored queue knows how far each origin has come, though its home is new to it."""
    master = queue.backing if isinstance(queue, Queue) else None
    if not isinstance(master, MasterBacking):
        return Inbox(queue, control.origin)
    lowest = control.lowest
    make_room_for(control.origin, master.numbers)
    inbox = Inbox(queue, control.origin, master.numbers.get(control.origin, 0))
    if not master.is_settled and inbox.wait_for_all(lowest):
        master.when_settled(lambda: inbox.confirmed(lowest))
    return inbox


def follow_freezing(queue: Queue, master: MasterBacking) -> None:
    """A master that is frozen has its queue deliver nothing."""
    master.on_frozen = queue.hold
    master.on_thawed = queue.release
