"""The AMQP side of one open connection: its channels, and who answers what.

A session gets events (methods, messages, faults) and calls handlers. Handlers either finish at
once and return the reply, or are coroutines because something outside must happen first (a
declare must be stored); then the session is suspended: the client's later frames wait, so order is
kept, while deliveries go on. Mistakes surface as AmqpError and become channel.close or
connection.close here, with the ids of the method at fault.

No sockets: the connection that owns the session sends, runs coroutines and closes (`SessionHost`).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from pamqp import commands

from warren.auth.permissions import Access, ResourceKind, TopicAccess
from warren.auth.questions import AnswerPending
from warren.broker.events import ACTING_USER
from warren.channels.answered import call_answered, renew_secret
from warren.channels.channel import Channel
from warren.channels.channel_events import channel_closed, channel_created
from warren.channels.closing import release_channel, tell_confirms
from warren.channels.dispatch import HANDLERS
from warren.channels.intake import Intake
from warren.channels.session_host import SessionHost
from warren.metadata.store import MetadataError, MetadataUnavailable
from warren.model.errors import (
    AmqpError,
    HardError,
    SoftError,
    channel_error,
    command_invalid,
    internal_error,
    metadata_unreachable,
    not_allowed,
)
from warren.model.limits import ALLOWED_PER_CHANNEL_MAX
from warren.routing.exchange import Exchange
from warren.wire import faults
from warren.wire.codec import Fault, MethodFrame
from warren.wire.methods import Method, decode_method, encode_method, method_ids

if TYPE_CHECKING:
    pass

UPDATE_SECRET: Final = (10, 70)
CHANNEL_OPEN: Final = (20, 10)
CHANNEL_CLOSE: Final = (20, 40)
CHANNEL_CLOSE_OK: Final = (20, 41)
# Methods that carry content but that only a server sends: RabbitMQ waits for their content.
SERVER_CONTENT: Final = frozenset({(60, 50), (60, 60), (60, 71)})


class Session:
    def __init__(self, host: SessionHost) -> None:
        self.host = host
        self.output = host.output
        self.vhost = host.vhost
        self.user = host.user
        self.turn_clock = host.turn_clock
        self.reply_registry = host.reply_registry
        self.intake = Intake(self)
        self._news: list[tuple[Channel, Method]] = []
        self.channels = self.intake.channels
        self._closed: set[int] = set()
        """Numbers of channels that are closed, and were not opened again: at most channel_max."""

    def require(self, channel: Channel, kind: ResourceKind, name: str, permission: Access) -> None:
        """Check a permission once per channel and topology version."""
        key = (kind, name, permission)
        if key in channel.allowed:
            return
        self.host.access.require(self.user, self.vhost.name, kind, name, permission)
        if len(channel.allowed) >= ALLOWED_PER_CHANNEL_MAX:
            channel.allowed.clear()
        channel.allowed[key] = None

    def require_topic(self, exchange: Exchange, routing_key: str, permission: TopicAccess) -> None:
        record = exchange.record
        if record.type == "topic":
            self.host.access.require_topic(
                self.user, record.vhost, record.name, permission, routing_key
            )

    def without_channel(self, channel: Channel | None) -> None:
        """Something for a channel that is not open: one on its way out may still get mail."""
        if channel is None:
            raise channel_error("expected 'channel.open'")

    def handle(self, event: MethodFrame | Fault) -> None:
        if isinstance(event, Fault):
            self._handle_fault(event)
            return
        ids = method_ids(event.payload)
        try:
            if event.channel == 0:
                self._handle_connection_method(event.payload)
            else:
                self._handle_channel_method(event, ids)
        except AmqpError as error:
            self.fail(event.channel, error, error.method_ids or ids)

    def fail(self, number: int, error: AmqpError, ids: tuple[int, int]) -> None:
        channel = self.channels.get(number)
        if isinstance(error, SoftError) and channel is not None:
            self._close_channel_by_error(channel, error, ids)
        elif isinstance(error, HardError):
            self.host.close_by_error(error, ids)
        else:
            raise AssertionError(f"{error} on channel {number}, which is not open")

    def send(self, channel: Channel, method: Method) -> None:
        self.output.method(channel.number, encode_method(method))

    def send_news(self, channel: Channel, method: Method) -> None:
        """Something nobody asked for. If it follows from what was asked, the answer comes first."""
        self._news.append((channel, method))
        if not self.intake.is_suspended:
            self._send_news()

    def _send_news(self) -> None:
        news, self._news = self._news, []
        for channel, method in news:
            if not channel.is_closing:
                self.send(channel, method)

    def end(self) -> None:
        """The connection is over: give back everything its channels had."""
        self.intake.is_closed = True
        for channel in list(self.channels.values()):
            if not channel.is_closing:
                release_channel(channel)
            self.forget_channel(channel)

    def close_overdue_channels(self, now_ms: int) -> None:
        """Close channels of clients that hold a delivery for too long (consumer_timeout).

        Permissions that a remote backend has given are asked for again from here on.
        """
        timeout_ms = self.host.consumer_timeout_ms
        if self.user.authorization is not None:
            self.forget_permissions()
        if not timeout_ms:
            return
        for channel in list(self.channels.values()):
            oldest = next(iter(channel.deliveries.unacked.values()), None)
            if oldest is not None and now_ms - oldest.delivered_at_ms > timeout_ms:
                error = SoftError(
                    406,
                    "PRECONDITION_FAILED",
                    f"delivery acknowledgement on channel {channel.number} timed out. "
                    f"Timeout value used: {timeout_ms} ms. This timeout value can be configured, "
                    "see consumers doc guide to learn more",
                )
                self._close_channel_by_error(channel, error, (0, 0))

    def _handle_fault(self, fault: Fault) -> None:
        channel = self.channels.get(fault.channel)
        if fault.kind in faults.CONTENT_KINDS and channel is not None and channel.is_closing:
            # The client broke off a content when it heard that the channel is closed.
            if fault.frame_type == 1:
                self.handle(MethodFrame(fault.channel, fault.payload))
            return
        reader = self.host.reader
        error = faults.error_of(fault, reader.frame_max, reader.message_size_max)
        if isinstance(error, SoftError) and (channel is None or channel.is_closing):
            return
        self.fail(fault.channel, error, faults.method_of(fault))

    def _handle_connection_method(self, payload: bytes) -> None:
        method = decode_method(payload)
        if isinstance(method, commands.Connection.Close):
            self.host.close_by_client()
        elif isinstance(method, commands.Connection.UpdateSecret):
            self._update_secret(method)
        else:
            raise channel_error("unexpected method in connection state running")

    def _update_secret(self, method: commands.Connection.UpdateSecret) -> None:
        """Internal users have no secret that ends, so theirs is taken without effect."""
        if self.user.authorization is None:
            self.output.method(0, encode_method(commands.Connection.UpdateSecretOk()))
            return
        secret = method.new_secret or b""  # pamqp says str; our decoder puts bytes there
        self.intake.is_suspended = True
        self.host.run(self._renew(secret if isinstance(secret, bytes) else secret.encode()))

    async def _renew(self, secret: bytes) -> None:
        try:
            user = await renew_secret(self.user, secret)
            if not self.intake.is_closed:
                self.user = user
                self.host.user_changed(user)
                self.forget_permissions()
                self.output.method(0, encode_method(commands.Connection.UpdateSecretOk()))
        except HardError as error:
            if not self.intake.is_closed:
                self.fail(0, error, UPDATE_SECRET)
        finally:
            self.intake.is_suspended = False
            self._send_news()

    def forget_permissions(self) -> None:
        """Have permissions checked again, those of routes that are known included."""
        for channel in self.channels.values():
            channel.settle_run()
            channel.forget_routes()

    def wait_for(self, pending: AnswerPending) -> None:
        """Suspend until a backend has answered; then the intake tries the same event again."""
        self.intake.is_suspended = True
        self.host.run(self._await_answer(pending))

    async def _await_answer(self, pending: AnswerPending) -> None:
        try:
            await pending.ask()
        finally:
            self.intake.is_suspended = False
            self._send_news()

    def _handle_channel_method(self, event: MethodFrame, ids: tuple[int, int]) -> None:
        channel = self.channels.get(event.channel)
        if channel is None:
            if ids in (CHANNEL_CLOSE, CHANNEL_CLOSE_OK) and event.channel in self._closed:
                self._handle_late_close(event.channel, ids)
                return
            if ids != CHANNEL_OPEN:
                raise channel_error("expected 'channel.open'")
            decode_method(event.payload)
            self._open_channel(event.channel)
        elif ids == CHANNEL_OPEN:
            raise channel_error("second 'channel.open' seen")
        elif channel.is_closing:
            # A close of the client that crossed ours is answered, and ours is still to be: only
            # close-ok frees the number, as in RabbitMQ.
            if ids == CHANNEL_CLOSE:
                self.send(channel, commands.Channel.CloseOk())
            elif ids == CHANNEL_CLOSE_OK:
                self.forget_channel(channel)
                self._closed.discard(event.channel)
        elif ids not in SERVER_CONTENT:
            self._dispatch(channel, decode_method(event.payload), ids)

    def _handle_late_close(self, number: int, ids: tuple[int, int]) -> None:
        """The client closed the channel already: answer a second close, ignore a stray close-ok."""
        if ids == CHANNEL_CLOSE:
            self.output.method(number, encode_method(commands.Channel.CloseOk()))

    def _dispatch(self, channel: Channel, method: Method, ids: tuple[int, int]) -> None:
        handler = HANDLERS.get(type(method))
        if handler is None:
            raise command_invalid("unimplemented method")
        if self.user.authorization is None:
            result = handler(channel, method)
        else:
            result = call_answered(handler, channel, method)
        if isinstance(result, Coroutine):  # compiled ones too
            self.suspend(channel, result, ids)
        elif result is not None:
            self.send(channel, result)

    def suspend(
        self, channel: Channel, work: Coroutine[Any, Any, Method | None], ids: tuple[int, int]
    ) -> None:
        """Let the client's later frames wait until this is done, and answered."""
        self.intake.is_suspended = True
        self.host.run(self._finish(channel, work, ids))

    async def _finish(
        self, channel: Channel, work: Coroutine[Any, Any, Method | None], ids: tuple[int, int]
    ) -> None:
        ACTING_USER.set(self.user.name)  # of this task alone
        try:
            reply = await work
            if reply is not None:
                await self.host.acting()  # it may be as good as a confirm
                if not self.intake.is_closed:
                    self.send(channel, reply)
        except AmqpError as error:
            if not self.intake.is_closed:
                self.fail(channel.number, error, error.method_ids or ids)
        except MetadataUnavailable as error:
            if not self.intake.is_closed:
                self.fail(channel.number, metadata_unreachable(str(error)), ids)
        except MetadataError as error:
            # Nothing has changed, here or on the disk: the client may try again when it is well.
            if not self.intake.is_closed:
                self.fail(channel.number, internal_error(f"cannot be stored: {error}"), ids)
        finally:
            self.intake.is_suspended = False
            self._send_news()

    def _open_channel(self, number: int) -> None:
        host = self.host
        if len(self.channels) >= host.channel_max:
            # RabbitMQ counts the one being opened, and names no method.
            error = not_allowed(
                f"number of channels opened ({len(self.channels)}) has reached "
                f"the negotiated channel_max ({host.channel_max})"
            )
            error.method_ids = (0, 0)
            raise error
        host.admit_channel()
        channel = Channel(self, number)
        self.channels[number] = channel
        self._closed.discard(number)
        channel_created(channel)
        open_ok = commands.Channel.OpenOk()
        open_ok.channel_id = ""  # pamqp insists on "0", RabbitMQ sends nothing
        self.send(channel, open_ok)

    def _close_channel_by_error(
        self, channel: Channel, error: SoftError, ids: tuple[int, int]
    ) -> None:
        if channel.is_closing:
            return
        tell_confirms(channel)
        channel.is_closing = True
        self.send(channel, commands.Channel.Close(error.code, error.reply_text, *ids))
        release_channel(channel)

    def forget_channel(self, channel: Channel) -> None:
        """The number may be used for another channel from now on."""
        if self.channels.pop(channel.number, None) is not None:
            channel.settle_run()
            self.vhost.activity.channel_closed(channel.counters)
            self.host.release_channel()
            channel_closed(channel)
            self._closed.add(channel.number)
        self.host.reader.forget_channel(channel.number)
