"""The home of a mirrored queue comes to this node, leaves it, or goes from one node to another.

Clients of this node hold on to nothing of that: what they published and have no answer to, and what
they consume, is taken along.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from warren.cluster.asker import Asker
from warren.cluster.link_consumer import LinkConsumer
from warren.cluster.remote_queue import RemoteQueue, Unconfirmed
from warren.mirror.master import MasterBacking
from warren.queues.boundary import REJECTED, TAKEN, AbstractQueue
from warren.queues.queue import Queue
from warren.server.context import ConnectionContext

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

    def note(self, remote: RemoteQueue) -> None:
        """A queue of another node has been made."""
        remote.origin = self._mirrors.new_origin()
        self.note_mirrored(remote)

    def note_mirrored(self, remote: RemoteQueue) -> None:
        """Whether there is another copy that could be its home if this one is lost."""
        remote.is_mirrored = bool(self._mirrors.survivors_of(remote.record))

    def rehome(self, name: tuple[str, str], is_lost: bool = False) -> None:
        """Where a mirrored queue is now; if that is where it `is_lost`, nowhere for the moment."""
        vhost = self._context.broker.vhosts.get(name[0])
        queue = vhost.queues.get(name[1]) if vhost is not None else None
        if not isinstance(queue, RemoteQueue):
            return
        self.note_mirrored(queue)
        asked = self._cluster.links.nodes.get(self._mirrors.home_of(queue.record))
        is_known = asked is not None and not asked.asker.is_lost
        if asked is not None and is_known and not (is_lost and asked.asker is queue.asker):
            queue.move(asked.asker)
        elif queue.is_mirrored:
            queue.move(self.waiting_asker)
            asyncio.get_running_loop().call_later(HOMELESS_S_MAX, self._give_up, queue)
        else:
            self._lose(queue)

    def _give_up(self, queue: RemoteQueue) -> None:
        """Nobody has come forward."""
        if queue.asker is self.waiting_asker:
            queue.is_mirrored = False
            self._lose(queue)

    def _lose(self, queue: RemoteQueue) -> None:
        """Whoever waits is told that the queue is down."""
        queue.move(self.lost_asker)
        queue.lost()

    def take_home(self, remote: AbstractQueue, master: MasterBacking) -> None:
        """This node leads the queue now, and has what it had."""
        assert isinstance(remote, RemoteQueue)
        vhost = self._context.broker.vhosts[remote.record.vhost]
        settings = vhost.policies.settings_of(remote.record)
        queue = self._context.queue_factory.make_promoted(remote.record, settings, master)
        for level in master.level_queues().values():
            level.on_loaded = queue.loaded
        vhost.replace_queue(queue)
        consumers, unconfirmed = remote.come_home()
        remote.asker.came_home(remote)
        for entry in unconfirmed:
            self._publish_again(queue, master, entry)
        for consumer in consumers:
            consumer.queue = queue
            consumer.is_parked = False
            queue.add_consumer(consumer)

    def leave_home(self, queue: Queue, master: MasterBacking) -> None:
        """This node does not lead the queue any more; clients here go on with whoever does."""
        waiting = master.depose()
        vhost = self._context.broker.vhosts[queue.record.vhost]
        remote = RemoteQueue(queue.record, queue.settings, self.waiting_asker)
        remote.is_mirrored = True
        remote.origin = master.origin
        queue.stop()
        vhost.replace_queue(remote)
        local = [c for c in queue.consumers if not isinstance(c, LinkConsumer)]
        remote.begin_elsewhere(master.local_number, waiting, local)
        self.rehome((queue.record.vhost, queue.record.name))

    def _publish_again(self, queue: Queue, master: MasterBacking, entry: Unconfirmed) -> None:
        publisher = entry.publisher
        if entry.number <= master.local_number:
            if publisher is not None:
                master.when_settled(lambda: publisher.confirmed(entry.sequence))
            return
        outcome = queue.publish(entry.message, publisher, entry.sequence)
        if publisher is not None and outcome == TAKEN:
            publisher.confirmed(entry.sequence)
        elif publisher is not None and outcome == REJECTED:
            publisher.rejected(entry.sequence)
