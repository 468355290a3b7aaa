"""The host of a session: what the AMQP side of a connection asks of the side with the socket."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from warren.auth.access import AccessControl
from warren.auth.users import User
from warren.channels.confirms import Confirms
from warren.channels.reply_registry import ReplyRegistry
from warren.model.errors import HardError
from warren.protocol.capabilities import ClientCapabilities
from warren.queues.delivery import TurnClock
from warren.wire.codec import FrameReader, OutputBuffer

if TYPE_CHECKING:
    from warren.broker.vhost import VirtualHost


class SessionHost(Protocol):
    """The part of a connection that its session uses."""

    connection_id: str
    user: User
    vhost: VirtualHost
    output: OutputBuffer
    reader: FrameReader
    capabilities: ClientCapabilities
    channel_max: int

    @property
    def full_name(self) -> str:
        """Name under which operators know the connection."""
        ...

    def pid(self, channel_number: int = 0) -> str:
        """The connection, or one of its channels, as Erlang would name its process."""
        ...

    @property
    def access(self) -> AccessControl: ...

    @property
    def turn_clock(self) -> TurnClock: ...

    @property
    def reply_registry(self) -> ReplyRegistry: ...

    @property
    def consumer_timeout_ms(self) -> int: ...

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run to its end in the background, then take up the waiting events again."""
        ...

    def run_to_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Run to its end in the background, though the connection ends; a stop waits for it."""
        ...

    def user_changed(self, user: User) -> None:
        """Go on with another secret of the same user."""
        ...

    def close_by_error(self, error: HardError, ids: tuple[int, int]) -> None: ...

    def close_by_client(self) -> None: ...

    def confirms_due(self, confirms: Confirms) -> None: ...

    def random_name(self, prefix: str) -> str: ...

    def admit_channel(self) -> None:
        """Count one more channel of this user; raises if that is too many."""
        ...

    def release_channel(self) -> None: ...

    async def until(self, register: Callable[[Callable[[], None]], None]) -> None:
        """Wait until the callback that is handed to `register` is called."""
        ...

    async def output_drained(self) -> None:
        """Wait until the client has read most of what was sent to it."""
        ...

    @property
    def is_frozen(self) -> bool:
        """The node may neither confirm nor deliver at this moment."""
        ...

    async def acting(self) -> None:
        """Wait until it may; raises a SoftError if that takes too long."""
        ...

    async def storage_ready(self) -> None:
        """Wait until the virtual host has a place for the messages of its queues."""
        ...

    async def deletions_done(self) -> None:
        """Wait for queues that are on their way out because nobody uses them any more."""
        ...
