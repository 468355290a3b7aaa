"""The wire kernel as the rest of the broker sees it: both twins offer exactly this."""

from collections.abc import Callable
from typing import Any, final

@final
class PropertyBlock:
    """A basic property block (flags and values), kept byte for byte, with what routing needs."""

    raw: bytes
    flags: int
    is_malformed: bool
    persistent: bool
    priority: int
    expiration_ms: int
    """-1: none; -2: present but not a plain decimal number (the channel refuses it)."""
    needs_vetting: bool
    """Has CC/BCC, user-id, direct reply-to or an odd expiration: the channel must look closer."""
    def __init__(self, raw: bytes) -> None: ...

@final
class Message:
    """One publish, shared by every queue it was routed to. Never changed once routed."""

    route_key: bytes
    """Exchange and routing key as on the wire: two length-prefixed short strings."""
    properties: PropertyBlock
    body: bytes
    channel: int
    flags: int
    """Bits of basic.publish: 1 mandatory, 2 immediate."""
    def __init__(
        self, route_key: bytes, properties: PropertyBlock, body: bytes, flags: int = 0
    ) -> None: ...

@final
class QueuedMessage:
    """A message's place in one queue, and who has it while it is unacknowledged."""

    message: Message
    sequence: int
    expires_at_ms: int
    """0: never."""
    redelivered: bool
    delivery_count: int
    holder: Any
    """The consumer (or the getter) it was delivered to; None while it is ready."""
    delivered_at_ms: int
    state: int
    """How far it is on its way to the disk; 0 means that it is not meant to go there."""
    publisher: Any
    """Who waits for a confirm of it, under the number `publisher_sequence`; None if nobody."""
    publisher_sequence: int
    store_file: int
    """The message store's file its body is in, at `store_offset`; -1 if in none."""
    store_offset: int
    size: int
    """Bytes of the body, also while that is not in memory (`message` is None then)."""
    def __init__(self, message: Message, sequence: int, expires_at_ms: int) -> None: ...

@final
class MethodFrame:
    channel: int
    payload: bytes
    def __init__(self, channel: int, payload: bytes) -> None: ...

@final
class Ack:
    """basic.ack, the one control method as frequent as messages."""

    channel: int
    delivery_tag: int
    multiple: bool
    def __init__(self, channel: int, delivery_tag: int, multiple: bool) -> None: ...

@final
class Delivery:
    """What a client gets: basic.deliver, or basic.get-ok (whose consumer tag is empty)."""

    channel: int
    consumer_tag: bytes
    delivery_tag: int
    redelivered: bool
    messages_left: int
    message: Message
    def __init__(
        self,
        channel: int,
        consumer_tag: bytes,
        delivery_tag: int,
        redelivered: bool,
        messages_left: int,
        message: Message,
    ) -> None: ...

@final
class Fault:
    """Something wrong in the byte stream; see wire/faults.py."""

    kind: int
    channel: int
    frame_type: int
    payload: bytes
    detail: int
    def __init__(
        self, kind: int, channel: int, frame_type: int, payload: bytes, detail: int
    ) -> None: ...

@final
class FrameReader:
    """Bytes in, events out, whatever the boundaries of the reads."""

    frame_max: int
    message_size_max: int
    stepwise: bool
    """One event per feed() (the handshake changes the rules as it goes)."""
    is_client: bool
    """Whether deliveries are understood, as one node does that asks another for messages."""
    octets: int
    frames: int
    has_stopped: bool
    def __init__(self, frame_max: int, message_size_max: int) -> None: ...
    def feed(self, data: bytes | bytearray | memoryview) -> list[Any]: ...
    def landing(self) -> memoryview | None: ...
    def landed(self, count: int) -> list[Any]: ...
    def is_in_content(self) -> bool:
        """Whether a message has begun, header and all, and is not complete."""
    def forget_channel(self, channel: int) -> None: ...

@final
class OutputBuffer:
    """Everything one connection is about to send."""

    frame_max: int
    size: int
    """Bytes encoded and not yet taken."""
    octets: int
    """Bytes encoded since the beginning."""
    is_congested: bool
    waiting: list[Any]
    """Consumers to be tried again once the congestion is over."""
    def __init__(
        self,
        frame_max: int,
        congestion_bytes: int,
        on_first_write: Callable[[], None],
        on_congested: Callable[[], None] | None = None,
    ) -> None:
        """`on_congested` may `take` what is there and clear `is_congested` again."""
    def raw(self, data: bytes) -> None: ...
    def method(self, channel: int, payload: bytes) -> None: ...
    def heartbeat(self) -> None: ...
    def ack(self, channel: int, delivery_tag: int, multiple: bool) -> None: ...
    def nack(self, channel: int, delivery_tag: int, multiple: bool) -> None: ...
    def deliver(
        self,
        channel: int,
        consumer_tag: bytes,
        delivery_tag: int,
        redelivered: bool,
        message: Message,
    ) -> None: ...
    def content(self, channel: int, method: bytes, message: Message) -> None: ...
    def take(self) -> list[bytes | memoryview]: ...
