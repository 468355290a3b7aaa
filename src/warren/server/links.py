"""All links of a node: those it makes to ask other nodes, and those that other nodes make to it.

A link to another node is kept for as long as that node has a session, and made anew whenever it
breaks, at once and then ever less often. Whether a node is alive is for its session to say, never
for a link: a broken link only means that nothing gets through at the moment.

With one exception, which makes failover quick: where a link stood and broke, and the machine now
*refuses* to connect, there is no such process any more. Then its session is ended for it. Silence
proves nothing: the machine may be cut off, stopped, or slow, and it would be wrong to act for it.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from warren.broker.vhost import VirtualHost
from warren.cluster.link.channels import LinkChannel
from warren.cluster.link.client import LinkClient
from warren.cluster.link.control import (
    Applied,
    Control,
    Counted,
    MirrorNews,
    OfAsker,
    OpenQueue,
)
from warren.cluster.link.handshake import (
    NONCE_BYTES,
    ClientHandshake,
    Identity,
    ServerHandshake,
)
from warren.cluster.link.publishes import LinkPublishes, still_asked_about
from warren.cluster.link.remote_queue import RemoteQueue
from warren.cluster.link.server import LinkServer
from warren.cluster.sessions import NotWelcome
from warren.config.values import Endpoint
from warren.model.logs import EventLog
from warren.queues.boundary import AbstractQueue
from warren.queues.delivery import Deliveries
from warren.queues.queue import Queue
from warren.server.context import ConnectionContext
from warren.server.link_protocol import LinkProtocol, silent_pulses_max
from warren.server.served_inquiries import Answerer, ServedInquiries, nobody_answers
from warren.server.sockets import address_of, bind
from warren.server.tls.acceptor import TlsAcceptor, TlsSide
from warren.server.tls.linking import explain_asking, mismatch

RECONNECT_S_MIN: Final = 0.05
RECONNECT_S_MAX: Final = 2.0
# So many refusals in a row, where there was a link before, mean that the process is gone.
REFUSALS_OF_THE_DEAD: Final = 2
CONNECT_S_MAX: Final = 5.0
# A node that lives but cannot be reached for so long is as good as down to clients of this one.
LINKLESS_S_MAX: Final = 15.0
BACKLOG: Final = 128
# Every node asks every other over one link, and proves itself at once. When more than these have
# not done so, the one that has been there longest has to go: strangers keep no node out.
LINKS_ARRIVING_MAX: Final = 256

_log = EventLog("link")


class LinkListener(Protocol):
    """The node, as far as its links tell it of changes and ask it."""

    def applied(self, node: str, revision: int) -> None:
        """Another node's topology has come to this revision of the store."""
        ...

    def counted(self, node: str, news: Counted) -> None:
        """Another node tells how many connections and channels it has."""
        ...

    def greetings(self) -> Sequence[Control]:
        """Return the controls that a node is told as soon as there is a link to it."""
        ...

    def process_gone(self, node: str) -> None:
        """A node's port refuses connections where there was a link before."""
        ...

    def refused_for_good(self, node: str, reason: str) -> None:
        """A node will never let this one in: another secret, or another protocol."""
        ...

    def given_up(self, node: str) -> None:
        """There was no link for so long that clients do not wait any more."""
        ...

    def link_up(self, node: str) -> None: ...

    def link_down(self, node: str, silent_ms: int) -> None:
        """The link broke, having brought nothing for so long before, or could not be made."""
        ...

    def mirror_frames(self, body: bytes) -> None: ...

    def mirror_news(self, news: MirrorNews) -> None: ...

    def resumed(self, queue: RemoteQueue) -> None: ...

    def master_missing(self, queue: RemoteQueue, node: str) -> None: ...

    def make_inbox(self, queue: AbstractQueue, control: OpenQueue) -> LinkPublishes: ...

    def becomes_master(self, control: OpenQueue, again: Callable[[OpenQueue], None]) -> bool:
        """True if this node is about to be that queue's master; then `again` is called."""
        ...


class ServedLink:
    """A link that another node has made: what the `LinkServer` behind it needs."""

    def __init__(self, links: Links, link: LinkProtocol) -> None:
        context = links.context
        self._listener = links.listener
        self.peer = link.peer
        self.output = link.outgoing.output
        self.answers_due: Callable[[LinkChannel], None] = link.outgoing.confirms_due
        self.turn_clock = context.turn_clock
        self.vhosts: Mapping[str, VirtualHost] = context.broker.vhosts
        self.reply_desk: AbstractQueue = context.reply_desk
        self._context = context
        self._link = link
        self.inquiries = ServedInquiries(link.peer, link.say, context.spawn, links.answerer)

    @property
    def is_frozen(self) -> bool:
        return not self._context.tenure.holds()

    def spawn(self, work: Coroutine[Any, Any, None]) -> object:
        return self._context.spawn(work)

    def make_inbox(self, queue: AbstractQueue, control: OpenQueue) -> LinkPublishes:
        return self._listener.make_inbox(queue, control)

    def becomes_master(self, control: OpenQueue, again: Callable[[OpenQueue], None]) -> bool:
        return self._listener.becomes_master(control, again)

    def inquired(self, control: OfAsker) -> None:
        self.inquiries.heard(control)

    def applied(self, revision: int) -> None:
        self._listener.applied(self.peer, revision)

    def counted(self, news: Counted) -> None:
        self._listener.counted(self.peer, news)

    def mirror_frames(self, body: bytes) -> None:
        self._listener.mirror_frames(body)

    def mirror_news(self, news: MirrorNews) -> None:
        self._listener.mirror_news(news)


class AskedNode:
    """Another node, for as long as its session lasts: the link to it, and its `LinkClient`."""

    def __init__(self, links: Links, name: str, address: Endpoint, speaks_tls: bool) -> None:
        loop = asyncio.get_running_loop()
        self.name = name
        self.address = address
        self._speaks_tls = speaks_tls
        self.is_tried = asyncio.Event()
        self.refusal: str | None = None
        """Why it will never let us in, if so."""
        self.asker = LinkClient(name, loop.create_future, links.listener)
        self._links = links
        self._link: LinkProtocol | None = None
        self._me = replace(links.me, incarnation=secrets.token_hex(NONCE_BYTES))
        """Publishes are numbered for as long as this object lives: it is one asker."""
        self._refusals = 0
        self._has_stood = False
        self._silent_ms = 0
        """Time for which the last link brought nothing before it was given up."""
        self._task = loop.create_task(self._keep_linked())

    def close(self) -> None:
        """Its session has ended, or ours is about to."""
        self._task.cancel()
        self.is_tried.set()
        if self._link is not None:
            self._link.on_lost = None
            self._link.abort("the node's session has ended")
        self.asker.lost()
        self._links.context.brake.forget(self.asker.credit)

    def say_applied(self, revision: int) -> None:
        self.asker.tell(Applied(revision))

    async def _keep_linked(self) -> None:
        self._links.context.brake.watch(self.asker.credit)
        wait_s = RECONNECT_S_MIN
        loop = asyncio.get_running_loop()
        linked_at = loop.time()
        while True:
            lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            reason = await self._connect(lost)
            has_tls = self._links.client_tls is not None
            if reason is not None and (odd := mismatch(self.name, self._speaks_tls, has_tls)):
                self.refusal = reason = odd
            self.is_tried.set()
            if reason is None:
                wait_s = RECONNECT_S_MIN
                self._has_stood = True
                reason = await lost
                self.asker.disconnected()
                linked_at = loop.time()
                self._links.listener.link_down(self.name, self._silent_ms)
            elif not self._has_stood:
                self._links.listener.link_down(self.name, 0)  # it never was up, and may never be
            _log.warning(
                "cannot connect to node", node=self.name, address=self.address, reason=reason
            )
            listener = self._links.listener
            if self._has_stood and self._refusals == REFUSALS_OF_THE_DEAD:
                listener.process_gone(self.name)
            if self.refusal is not None:
                listener.refused_for_good(self.name, self.refusal)
            if not self.asker.is_lost and loop.time() - linked_at > LINKLESS_S_MAX:
                listener.given_up(self.name)
                self.asker.lost()
            await asyncio.sleep(wait_s)
            if self._refusals == 0 or self._refusals > REFUSALS_OF_THE_DEAD:
                wait_s = min(wait_s * 2, RECONNECT_S_MAX)

    async def _connect(self, lost: asyncio.Future[str]) -> str | None:
        """None once the link stands, else why it does not; `lost` tells of its end."""
        links = self._links
        handshake = ClientHandshake(self._me, self.name, secrets.token_bytes(NONCE_BYTES))
        stands: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        link = links.new_link(is_client=True)
        link.peer = self.name

        def handle(control: Control) -> Control | None:
            answer = handshake.handle(control)
            if handshake.is_done:
                self._link = link
                link.begin(self.asker)
                self.asker.connected(link.outgoing.output, handshake.peer_incarnation or "")
                links.introduce(self)
                stands.set_result(None)
            return answer

        def on_lost(reason: str) -> None:
            self._link = None
            self._silent_ms = link.silent_ms
            is_for_good = link.is_refused_for_good
            if isinstance(link.error, ssl.SSLError):
                reason = explain_asking(self.name, link.error)
                is_for_good = not self._has_stood
            self.refusal = reason if is_for_good else None
            for future in (stands, lost):
                if not future.done():
                    future.set_result(reason)

        link.handshake = handle
        link.on_lost = on_lost
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                await asyncio.get_running_loop().create_connection(
                    lambda: link,
                    self.address.host or "127.0.0.1",
                    self.address.port,
                    ssl=links.client_tls,
                )
                self._refusals = 0
                handshake.binding = link.binding
                link.say(handshake.begin())
                return await stands
        except TimeoutError:
            link.abort("it took too long")
            return f"no answer within {CONNECT_S_MAX:g} s"
        except ssl.SSLError as error:
            reason = explain_asking(self.name, error)
            self.refusal = None if self._has_stood else reason
            return reason
        except OSError as error:
            is_refused = isinstance(error, ConnectionRefusedError)
            self._refusals = self._refusals + 1 if is_refused else 0
            return error.strerror or str(error)
        except asyncio.CancelledError:
            link.on_lost = None
            link.abort("nobody waits for it any more")
            raise


class Links:
    def __init__(self, context: ConnectionContext, me: Identity, listener: LinkListener) -> None:
        self.context = context
        self.me = me
        self.listener = listener
        self.nodes: dict[str, AskedNode] = {}
        self._tls: TlsAcceptor | None = None
        self.answerer: Answerer = nobody_answers
        self.revision = 0
        """Revision of the store that the local topology has applied."""
        self._accepted: dict[LinkProtocol, tuple[LinkServer, ServedLink]] = {}
        # Of each node's last asker. They outlive a session: who comes back goes on counting.
        self._inboxes: dict[str, tuple[str, dict[AbstractQueue, LinkPublishes]]] = {}
        # In the order in which they came; the values mean nothing.
        self._arriving: dict[LinkProtocol, None] = {}
        self._is_leaving = False
        self._server: asyncio.Server | None = None
        self._socket: Any = None

    # Life.

    def bind(self, endpoint: Endpoint) -> None:
        """Raises CannotListenError."""
        self._socket = bind(endpoint, "links between nodes", "--cluster-port")

    @property
    def endpoint(self) -> Endpoint:
        return address_of(self._socket)

    def speak_tls(self, side: TlsSide | None) -> None:
        """If it is configured; before any link is made."""
        if side is not None:
            self._tls = TlsAcceptor(side, self._accept, LINKS_ARRIVING_MAX)

    @property
    def client_tls(self) -> ssl.SSLContext | None:
        """None if links are not encrypted."""
        return None if self._tls is None else self._tls.side.asking

    async def open(self) -> None:
        if self._tls is not None:
            self._tls.listen(self._socket, BACKLOG)
            return
        self._server = await asyncio.get_running_loop().create_server(
            self._accept, sock=self._socket, backlog=BACKLOG
        )

    def stop_serving(self) -> None:
        """What clients of other nodes had goes back, while its queues can still write that down."""
        self._is_leaving = True
        for link in tuple(self._accepted):
            link.abort("this node is stopping")
            self._stop_serving(link)

    def close(self) -> None:
        if self._tls is not None:
            self._tls.close()
            self._socket.close()
        if self._server is not None:
            self._server.close()
        for node in tuple(self.nodes):
            self.remove(node)
        for link in (*self._accepted, *self._arriving):
            link.abort("this node is stopping")

    def new_link(self, is_client: bool) -> LinkProtocol:
        config = self.context.config
        link = LinkProtocol(self.context.flush_scheduler, config.max_message_size, is_client)
        link.silent_pulses_max = silent_pulses_max(config.mirror_timeout_ms)
        return link

    # Other nodes, as their sessions come and go.

    def add(self, name: str, address: Endpoint, speaks_tls: bool = False) -> AskedNode:
        node = self.nodes[name] = AskedNode(self, name, address, speaks_tls)
        return node

    def remove(self, name: str) -> None:
        node = self.nodes.pop(name, None)
        if node is not None:
            node.close()

    def tell_applied(self, to: Iterable[str]) -> None:
        """Our topology is that of `revision`: whoever waits for us may go on."""
        for name in to:
            if name in self.nodes:
                self.nodes[name].say_applied(self.revision)

    def tell(self, news: Iterable[Control]) -> None:
        """Say it over all links that stand."""
        for control in news:
            for node in self.nodes.values():
                node.asker.tell(control)

    def introduce(self, node: AskedNode) -> None:
        _log.info("connected to node", node=node.name, address=node.address)
        node.say_applied(self.revision)
        for control in self.listener.greetings():
            node.asker.tell(control)
        self.listener.link_up(node.name)

    async def meet(self) -> None:
        """Try all others once. Raises NotWelcome if one of them will never let us in."""
        for node in tuple(self.nodes.values()):
            await node.is_tried.wait()
            if node.refusal is not None:
                raise NotWelcome(
                    f"this node cannot join cluster '{self.me.cluster}': {node.refusal}"
                )

    # Links that others make.

    def _accept(self) -> LinkProtocol:
        link = self.new_link(is_client=False)
        handshake = ServerHandshake(self.me, secrets.token_bytes(NONCE_BYTES))
        self._arriving[link] = None

        def handle(control: Control) -> Control:
            handshake.binding = link.binding
            answer = handshake.handle(control)
            if handshake.is_done:
                self._serve(link, handshake)
            return answer

        if self._is_leaving:
            link.turn_away("this node is stopping")
        link.handshake = handle
        link.on_lost = lambda reason: self._lost(link, reason)
        if len(self._arriving) > LINKS_ARRIVING_MAX:
            oldest = next(iter(self._arriving))
            del self._arriving[oldest]
            oldest.turn_away("too many links of nodes that have not proved themselves")
        return link

    def _serve(self, link: LinkProtocol, handshake: ServerHandshake) -> None:
        peer = handshake.peer
        link.peer = peer.node
        link.incarnation = peer.incarnation
        self._end_older(link)
        asker, inboxes = self._inboxes.get(peer.node, ("", {}))
        if asker != peer.incarnation:
            inboxes = still_asked_about(inboxes)
            self._inboxes[peer.node] = (peer.incarnation, inboxes)
        served = ServedLink(self, link)
        delegate = LinkServer(served, inboxes)
        self._arriving.pop(link, None)
        self._accepted[link] = (delegate, served)
        link.begin(delegate)

    def deliveries(self) -> list[Deliveries]:
        """What clients of other nodes have of queues here."""
        return [each for delegate, _ in self._accepted.values() for each in delegate.deliveries()]

    def client_of(self, node: str) -> LinkClient | None:
        """The asking side of the link to a node; None if the node has no session."""
        asked = self.nodes.get(node)
        return None if asked is None else asked.asker

    def answer_with(self, answerer: Answerer) -> None:
        """Set what answers the management API of other nodes; before `open`."""
        self.answerer = answerer

    def queue_moved(self, queue: Queue) -> None:
        """A queue that was served here has another master."""
        for delegate, _ in tuple(self._accepted.values()):
            delegate.moved(queue)

    def _end_older(self, link: LinkProtocol) -> None:
        """What is still on its way over a link that its node has given up was sent again.

        Here it would be counted twice, and answers would be for the wrong publishes.
        """
        for older in tuple(self._accepted):
            if (older.peer, older.incarnation) == (link.peer, link.incarnation):
                older.abort("its node has made another one")
                self._stop_serving(older)

    def _lost(self, link: LinkProtocol, reason: str) -> None:
        self._arriving.pop(link, None)
        self._stop_serving(link)
        _log.info("link of another node ended", node=link.peer, reason=reason)

    def _stop_serving(self, link: LinkProtocol) -> None:
        accepted = self._accepted.pop(link, None)
        if accepted is not None:
            delegate, served = accepted
            served.inquiries.close()
            delegate.close()
