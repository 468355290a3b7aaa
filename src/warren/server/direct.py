"""A session without a socket: what the node does on behalf of a user, as a client would do it.

The management API publishes and gets through one of these, so every check a client meets, and the
words it is refused with, are met here, too. Answers are written to an output that nobody reads:
what they would say is known from the channel itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, cast

from pamqp import commands

from warren.auth.users import User
from warren.channels import basic_methods, queue_methods
from warren.channels.channel import Channel
from warren.channels.confirms import Confirms
from warren.channels.publishing import MANDATORY
from warren.channels.session import Session
from warren.channels.transaction import Transaction
from warren.model.errors import HardError, SoftError
from warren.model.fields import EMPTY_TABLE
from warren.protocol.capabilities import ClientCapabilities
from warren.server.context import ConnectionContext, new_token
from warren.server.session_services import SessionServices
from warren.wire.codec import Fault, FrameReader, Message, MethodFrame, OutputBuffer, QueuedMessage
from warren.wire.fault_kinds import FaultKind
from warren.wire.faults import error_of
from warren.wire.methods import encode_method

_NUMBER: Final = 1
_FRAME_MAX: Final = 131_072
# Nobody reads the output: it is emptied after each step, and never full.
_OUTPUT_BYTES_MAX: Final = 1 << 40


class PublishRejected(Exception):
    """A queue would not take the message."""


class DirectConnection(SessionServices):
    """Raises what opening a connection to the virtual host raises. To be closed in the end."""

    __slots__ = ("_refusal", "_session", "capabilities", "channel", "channel_max", "output",
                 "reader")  # fmt: skip

    def __init__(self, context: ConnectionContext, user: User, vhost: str) -> None:
        super().__init__(context)
        context.admission.open_vhost(user, vhost)
        self.user = user
        self.vhost = context.broker.vhosts[vhost]
        self.connection_id = f"direct {new_token()}"
        self.capabilities = ClientCapabilities()
        self.channel_max = 1
        self.reader = FrameReader(_FRAME_MAX, context.config.max_message_size)
        self.output = OutputBuffer(_FRAME_MAX, _OUTPUT_BYTES_MAX, lambda: None)
        self._refusal: HardError | None = None
        self._session = Session(self)
        self.channel = self._open_channel()

    def _open_channel(self) -> Channel:
        payload = encode_method(commands.Channel.Open())
        self._session.handle(MethodFrame(_NUMBER, payload))
        if self._refusal is not None:
            raise self._refusal
        self.output.take()
        return self._session.channels[_NUMBER]

    async def publish(self, message: Message) -> bool:
        """Whether any queue got it; returns when it is as safe as it asked to be.

        Raises PublishRejected, and what a channel would be closed for.
        """
        return await self._publish([message])

    async def publish_all(self, messages: Sequence[Message]) -> None:
        """Several; if one is rejected, nobody knows which others were taken.

        Their acknowledgements are none of the transaction's, and may follow when this returns.
        """
        await self._publish(messages)

    async def _publish(self, messages: Sequence[Message]) -> bool:
        channel = self.channel
        await self.acting()
        channel.transaction = Transaction(channel)
        for message in messages:
            self._require_size(len(message.body))
            message.flags = MANDATORY
            channel.publish(message)
        channel.settle_run()
        try:
            waiting = channel.transaction.commit()
            is_returned = self.output.size > 0
            self.output.take()
            if waiting is not None:
                await waiting
        except SoftError as error:
            raise PublishRejected(str(error)) from None
        return not is_returned

    def _require_size(self, size: int) -> None:
        """What the reader of a socket finds out from a content header."""
        size_max = self.reader.message_size_max
        if size > size_max:
            fault = Fault(FaultKind.MESSAGE_TOO_LARGE, _NUMBER, 0, b"", size)
            raise error_of(fault, self.reader.frame_max, size_max)

    async def get(self, queue: str) -> QueuedMessage | None:
        """The head of a queue, unacknowledged until `settle` or the end of this connection."""
        await self.acting()
        deliveries = self.channel.deliveries
        tag = deliveries.next_tag
        method = commands.Basic.Get()
        method.queue = queue  # whose name may have characters that pamqp lets nobody construct
        await _finish(basic_methods.get(self.channel, method))
        self.output.take()
        return deliveries.unacked.get(tag)

    def ack(self) -> None:
        """All that was got."""
        self.channel.deliveries.ack(0, True)

    async def nack(self, requeue: bool) -> None:
        method = commands.Basic.Nack(0, multiple=True, requeue=requeue)
        await _finish(basic_methods.nack(self.channel, method))

    async def declare_queue(self, name: str) -> None:
        method = commands.Queue.Declare(queue=name)
        method.arguments = cast("Any", EMPTY_TABLE)
        await queue_methods.declare(self.channel, method)

    def close(self) -> None:
        """Everything that was got and not settled goes back to where it was."""
        self._session.end()
        self._context.spawn(self.vhost.drop_exclusive(self.connection_id))

    # What the session asks for.

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self._context.spawn(work)

    def run_to_end(self, work: Coroutine[Any, Any, None]) -> None:
        self._context.spawn_to_end(work)

    def close_by_error(self, error: HardError, ids: tuple[int, int]) -> None:
        self._refusal = error

    def user_changed(self, user: User) -> None:
        raise AssertionError("nobody is there to renew a secret")

    def close_by_client(self) -> None:
        raise AssertionError("nobody is there to close it")

    def confirms_due(self, confirms: Confirms) -> None:
        confirms.flush()
        self.output.take()

    async def output_drained(self) -> None:
        await asyncio.sleep(0)


async def _finish(result: object) -> None:
    if isinstance(result, Coroutine):  # compiled ones too
        await result
