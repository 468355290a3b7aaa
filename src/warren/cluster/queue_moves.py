"""Queue moves: a queue's master comes to this node, leaves it, or goes from one node to another.

The decisions are the machine's (`node`, `masters`); here they are carried out on the objects that
clients use. Clients of this node notice nothing: what they published and have no answer to, and
what they consume, is taken along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from warren.broker.queue_host import QueueFactory
from warren.broker.vhost import VirtualHost
from warren.cluster.copy_files import CopyFiles
from warren.cluster.link.client import Answer, LinkClient
from warren.cluster.link.consumer import LinkConsumer
from warren.cluster.link.control import OpenQueue
from warren.cluster.link.publishes import LinkPublishes
from warren.cluster.link.remote_queue import RemoteQueue
from warren.cluster.link.unconfirmed import Unconfirmed
from warren.cluster.masters import Place, Whereabouts
from warren.cluster.node_replica import OpenLevel
from warren.flow.brake import Brake
from warren.model.logs import EventLog
from warren.model.records import QueueName, QueueRecord
from warren.queues.boundary import REJECTED, TAKEN, AbstractQueue
from warren.queues.deduplicating_queue import DeduplicatingQueue
from warren.queues.delivery import Deliveries
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings
from warren.replication.classic.instructions import first_sequence_of
from warren.replication.classic.master import MasterBacking
from warren.replication.classic.origins import make_room_for
from warren.replication.replica import Replica
from warren.replication.stream.stream_master import StreamMaster
from warren.replication.stream.stream_mirror import StreamMirror
from warren.streams.queue import StreamQueue
from warren.wire.codec import QueuedMessage

_log = EventLog("mirror")


class LinksOfNode(Protocol):
    """The links of this node, as far as queues that move have a part in them."""

    def client_of(self, node: str) -> LinkClient | None:
        """The side of the link to a node that asks; None if the node has no session."""
        ...

    def queue_moved(self, queue: Queue) -> None:
        """This node is not the queue's master any more: close it for clients of other nodes."""
        ...


class Clients(Protocol):
    """Deliveries that clients have of the queues of this node, here and on other nodes."""

    def deliveries(self) -> Iterable[Deliveries]: ...

    def new_origin(self) -> str:
        """Name under which mirrors know how far this node's publishes to a queue have come."""
        ...


class QueueMoves:
    """`make_answer` makes a future that a question to another node waits for."""

    def __init__(
        self,
        factory: QueueFactory,
        files: CopyFiles,
        brake: Brake,
        clients: Clients,
        make_answer: Callable[[], Answer],
    ) -> None:
        self._factory = factory
        self._files = files
        self._brake = brake
        self._clients = clients
        self._links: LinksOfNode | None = None
        self._unknown: dict[str, LinkClient] = {}
        """By node: stand-ins for links to nodes that have no session."""
        self._make_answer = make_answer
        self._waiting = LinkClient("", make_answer)
        """Where publishes and questions wait while a mirrored queue has no master."""
        brake.watch(self._waiting.credit)
        self._lost: dict[tuple[str, ...], LinkClient] = {}
        """By nodes that have copies: where mirrored queues are that are down."""

    def use_links(self, links: LinksOfNode) -> None:
        """The links are made after this object, which they need."""
        self._links = links

    @property
    def _vhosts(self) -> Mapping[str, VirtualHost]:
        return self._factory.vhosts

    # Queues of other nodes.

    def make_remote(
        self, record: QueueRecord, settings: QueueSettings, where: Whereabouts
    ) -> RemoteQueue:
        """Make the queue that clients of this node use whose master is another node's."""
        asker = self._waiting
        if where.homes:
            asker = self._lost_with(where.homes)
        elif where.place is not Place.AWAITED:
            asker = self._client_of(where.node or record.node)
        remote = RemoteQueue(record, settings, asker)
        remote.origin = self._clients.new_origin()
        remote.is_mirrored = where.is_mirrored
        return remote

    def _client_of(self, node: str) -> LinkClient:
        asker = None if self._links is None else self._links.client_of(node)
        if asker is not None:
            return asker
        if node not in self._unknown:
            self._unknown[node] = LinkClient(node, self._make_answer)
            self._unknown[node].is_lost = True
        return self._unknown[node]

    def _lost_with(self, homes: tuple[str, ...]) -> LinkClient:
        if homes not in self._lost:
            asker = self._lost[homes] = LinkClient("", self._make_answer)
            asker.is_lost = True
            asker.homes = homes
        return self._lost[homes]

    def redirect(self, name: QueueName, node: str, is_mirrored: bool) -> None:
        queue = self._remote(name)
        if queue is not None:
            queue.is_mirrored = is_mirrored
            queue.move(self._client_of(node))

    def await_master(self, name: QueueName) -> None:
        queue = self._remote(name)
        if queue is not None:
            queue.is_mirrored = True
            queue.move(self._waiting)

    def lose_master(self, name: QueueName, homes: tuple[str, ...]) -> None:
        """Tell clients that wait that the queue is down."""
        queue = self._remote(name)
        if queue is not None:
            queue.is_mirrored = False
            queue.move(self._lost_with(homes))
            queue.lost()

    def node_connected(self, node: str) -> None:
        """A node has a session again: its queues without copies are asked for over the new link."""
        asker = self._client_of(node)
        for vhost in self._vhosts.values():
            for queue in vhost.queues.values():
                if isinstance(queue, RemoteQueue) and queue.asker.node == node:
                    self._use_if_free(queue, asker)

    @staticmethod
    def _use_if_free(queue: RemoteQueue, asker: LinkClient) -> None:
        """A mirrored queue that is open at another link is moved off it, with what it has there."""
        if not queue.handle:
            queue.asker = asker

    def _remote(self, name: QueueName) -> RemoteQueue | None:
        queue = self._find(name)
        return queue if isinstance(queue, RemoteQueue) else None

    def _find(self, name: QueueName) -> AbstractQueue | None:
        vhost = self._vhosts.get(name[0])
        return None if vhost is None else vhost.queues.get(name[1])

    # Leading.

    def lead(self, name: QueueName, replica: Replica, open_level: OpenLevel) -> MasterBacking:
        """The group's record says that this node leads: make its copy the queue's."""
        queue = self._find(name)
        if isinstance(queue, Queue):
            return self._begin_group(queue, replica)
        mirror = replica.mirror
        assert mirror is not None, "a promoted replica has been a mirror"
        assert isinstance(queue, RemoteQueue), "a mirror's queue has its master elsewhere"
        if isinstance(mirror, StreamMirror):
            master: MasterBacking = StreamMaster(mirror.log, queue.origin, replica)
            master.inherit(mirror, 0)
        else:
            backing = self._files.backing_of(name, mirror, open_level)
            master = MasterBacking(backing, queue.origin, replica)
            # Levels that exist already were numbered by another master: this one's numbers follow.
            master.inherit(mirror, _first_sequence(replica))
        _wait_for_mirrors(master, replica)
        _set_patient(master, True)
        self._brake.watch(master.credit)
        _log.info("promoted: this node is now master", queue=str(queue.record))
        self._take_over(queue, master)
        return master

    def _begin_group(self, queue: Queue, replica: Replica) -> MasterBacking:
        """The queue has had no copies until now."""
        if isinstance(queue, StreamQueue):
            stream = StreamMaster(queue.log, self._clients.new_origin(), replica)
            stream.begin()
            self._brake.watch(stream.credit)
            queue.backing = stream
            return stream
        master = MasterBacking(queue.backing, self._clients.new_origin(), replica)
        master.adopt_unacked(self._unacked_of(queue))
        if isinstance(queue, DeduplicatingQueue):
            master.adopt_unacked(queue.id_records())
        _set_patient(master, True)
        self._brake.watch(master.credit)
        queue.backing = master
        follow_freezing(queue, master)
        return master

    def _unacked_of(self, queue: Queue) -> list[QueuedMessage]:
        """Return what clients have of a queue: its backing does not know, their channels do."""
        unacked = [q for each in self._clients.deliveries() for q in each.unacked.values()]
        return [queued for queued in unacked if queued.holder.queue is queue]

    def _take_over(self, remote: RemoteQueue, master: MasterBacking) -> None:
        """Replace the queue that was elsewhere by one that has this node's copy."""
        vhost = self._vhosts[remote.record.vhost]
        settings = vhost.policies.settings_of(remote.record)
        queue = self._factory.make_promoted(remote.record, settings, master)
        for level in master.level_queues().values():
            level.on_loaded = queue.loaded
        follow_freezing(queue, master)
        vhost.replace_queue(queue)
        consumers, unconfirmed = remote.give_up_here()
        for entry in unconfirmed:
            _publish_again(queue, master, entry, entry.number <= remote.doubtful)
        for consumer in consumers:
            consumer.queue = queue
            consumer.is_parked = False
            queue.add_consumer(consumer)
        queue.loaded()  # times and limits may be up by now, and nothing else would look

    def depose(self, name: QueueName, master: MasterBacking, is_mirrored: bool) -> bool:
        """Stop leading: another node does, or the queue is not mirrored any more."""
        self._brake.forget(master.credit)
        _set_patient(master, False)
        queue = self._find(name)
        if not isinstance(queue, Queue) or queue.backing is not master:
            return False
        if not is_mirrored:
            if isinstance(master, StreamMaster):
                master.dissolve()
            master.set_in_sync(())
            queue.backing = master.inner
            return False
        self._give_away(queue, master)
        return True

    def _give_away(self, queue: Queue, master: MasterBacking) -> None:
        """Clients here go on with the new master, as soon as it is known."""
        waiting = master.depose()
        self._part_with_deliveries(queue)
        remote = RemoteQueue(queue.record, queue.settings, self._waiting)
        remote.is_mirrored = True
        remote.origin = master.origin
        queue.stop()
        if isinstance(queue, StreamQueue):
            queue.hand_on_consumers()
        self._vhosts[queue.record.vhost].replace_queue(remote)
        assert self._links is not None, "a node that has led has links"
        self._links.queue_moved(queue)
        queue.wake_waiting()
        local = [c for c in queue.consumers if not isinstance(c, LinkConsumer)]
        remote.begin_elsewhere(master.local_number, waiting, local)

    def _part_with_deliveries(self, queue: Queue) -> None:
        """Leave clients copies of what they have: the copy of the queue keeps its own entries.

        If this node leads again it delivers those to other clients, and each entry has one holder.
        """
        for each in self._clients.deliveries():
            for tag, queued in each.unacked.items():
                if queued.holder.queue is queue:
                    each.unacked[tag] = _copy_of(queued)


def _copy_of(queued: QueuedMessage) -> QueuedMessage:
    """Copy what a channel has to know of a delivery, and nothing of where the message is kept."""
    copy = QueuedMessage(queued.message, queued.sequence, queued.expires_at_ms)
    copy.redelivered = queued.redelivered
    copy.holder = queued.holder
    copy.delivered_at_ms = queued.delivered_at_ms
    copy.size = queued.size
    return copy


def _set_patient(master: MasterBacking, is_patient: bool) -> None:
    """Have the disk here sync when batches go to mirrors, as each message waits for both."""
    for level in master.level_queues().values():
        level.set_patient(is_patient)


def _wait_for_mirrors(master: MasterBacking, replica: Replica) -> None:
    """Have the master wait for all in sync before clients of this node are told anything.

    What they published to the master before may be on this disk, and not yet on those of others.
    """
    assert replica.record is not None, "it says that this replica leads"
    master.set_in_sync(member for member in replica.record.insync if member != replica.me.id)


def _first_sequence(replica: Replica) -> int:
    assert replica.record is not None, "it says that this replica leads"
    return first_sequence_of(replica.record.epoch)


def _publish_again(
    queue: Queue, master: MasterBacking, entry: Unconfirmed, is_doubtful: bool
) -> None:
    """Publish what a client of this node has no answer to, unless the copy here has it."""
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


def make_inbox(queue: AbstractQueue, control: OpenQueue) -> LinkPublishes:
    """Make the inbox of another node's publishes; a mirrored queue knows how far they have come."""
    master = queue.backing if isinstance(queue, Queue) else None
    if not isinstance(master, MasterBacking):
        return LinkPublishes(queue, control.origin)
    lowest = control.lowest
    make_room_for(control.origin, master.numbers)
    inbox = LinkPublishes(queue, control.origin, master.numbers.get(control.origin, 0))
    if control.origin not in master.numbers:
        # A master that began again with what its disk had does not know what it was sent before,
        # and its node may be the same: the other one sees no change of masters then.
        inbox.doubtful = control.sent
    if not master.is_settled and inbox.wait_for_all(lowest):
        master.when_settled(lambda: inbox.confirmed(lowest))
    return inbox


def follow_freezing(queue: Queue, master: MasterBacking) -> None:
    """A master that is frozen has its queue deliver nothing."""
    master.on_frozen = queue.hold
    master.on_thawed = queue.release
