"""What nodes say to each other besides moving messages, as msgpack in a method frame.

Everything on a link is an AMQP frame, so that one scanner takes it apart. Messages, confirms and
acknowledgements are AMQP's own methods, on the channel that stands for their queue. All else goes
over channel 0 with a class number no AMQP method has:

    class 0xFFFF | kind 0 | msgpack of one of these

Requests carry an id that their answer repeats. What needs no answer is *news*.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

import msgspec

from warren.model.unreadable import UNREADABLE

CONTROL_CLASS: Final = b"\xff\xff\x00\x00"
# On the channel of a queue: so many deliveries from this tag on are acknowledged.
ACKED_IDS: Final = b"\xff\xff\x00\x01"
_ACKED: Final = struct.Struct(">4sQI")
PROTOCOL: Final = 3


class _Tagged(msgspec.Struct, frozen=True, tag=True, array_like=True):
    pass


# The handshake: see `link_handshake`.


class Hello(_Tagged, frozen=True):
    protocol: int
    version: str
    cluster: str
    node: str
    incarnation: str
    nonce: bytes


class Welcome(_Tagged, frozen=True):
    protocol: int
    version: str
    node: str
    incarnation: str
    nonce: bytes


class Proof(_Tagged, frozen=True):
    proof: bytes


class Accepted(_Tagged, frozen=True):
    proof: bytes


class Refused(_Tagged, frozen=True):
    """`is_for_good`: the two nodes do not belong together, and trying again is no use."""

    reason: str
    is_for_good: bool = False


# Queues, by handle: a channel number of the link.


class OpenQueue(_Tagged, frozen=True):
    """`lowest` is the number of the oldest publish that the asker has no answer to.

    A queue without a name, in no virtual host, is the node's desk for direct replies.
    """

    handle: int
    vhost: str
    queue: str
    lowest: int
    origin: str = ""
    """Who counts: the same for as long as numbers go up, whoever is the queue's master."""
    doubtful: int = 0
    """The last publish that a former master may have had, and delivered to somebody."""
    sent: int = 0
    """The last publish that was sent over an earlier link, whether it arrived or not."""


class QueueOpened(_Tagged, frozen=True):
    """`received` is the number of the last publish that arrived; the next one is one more."""

    handle: int
    received: int


class CloseQueue(_Tagged, frozen=True):
    handle: int


class NoSuchQueue(_Tagged, frozen=True):
    """It is not here (any more): whoever asked has older or newer news than we have."""

    handle: int


# Requests.


class Consume(_Tagged, frozen=True):
    """`consumer` is what both nodes call it, `tag` what its client calls it."""

    id: int
    handle: int
    consumer: str
    tag: str
    no_ack: bool
    prefetch: int
    exclusive: bool
    priority: int
    arguments: bytes


class Get(_Tagged, frozen=True):
    """Answered by a basic.get-ok on the handle, or by Done with nothing in it."""

    id: int
    handle: int


class Purge(_Tagged, frozen=True):
    id: int
    handle: int


class Counts(_Tagged, frozen=True):
    id: int
    handle: int


class Delete(_Tagged, frozen=True):
    id: int
    handle: int
    if_unused: bool
    if_empty: bool


class Done(_Tagged, frozen=True):
    id: int
    numbers: tuple[int, ...] = ()


class Failed(_Tagged, frozen=True):
    """An AMQP error, to be raised at the asker's client."""

    id: int
    code: int
    name: str
    explanation: str


# The management API of one node asks that of another: see `inquiries`.


class Inquire(_Tagged, frozen=True):
    """An HTTP request in all but the socket, on behalf of a user that the asker has let in.

    `part` says what is wanted of the answer where that is not the whole of it.
    """

    id: int
    user: str
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    part: str


class AnswerBegins(_Tagged, frozen=True):
    id: int
    status: int
    headers: dict[str, str]


class AnswerPart(_Tagged, frozen=True):
    id: int
    data: bytes
    is_last: bool


class WantMore(_Tagged, frozen=True):
    """A part has been used: there is room for another."""

    id: int


class Dismiss(_Tagged, frozen=True):
    """Nobody waits for the rest of the answer."""

    id: int


class Gone(_Tagged, frozen=True):
    """The queue that was asked about is not here (any more)."""

    id: int


# News.


class CancelConsumer(_Tagged, frozen=True):
    handle: int
    consumer: str


class ConsumerCancelled(_Tagged, frozen=True):
    handle: int
    consumer: str


class Grant(_Tagged, frozen=True):
    """The asker has passed so many deliveries on and can take as many more."""

    handle: int
    consumer: str
    deliveries: int


class Applied(_Tagged, frozen=True):
    """The sender's topology is that of this revision of the store."""

    revision: int


class Counted(_Tagged, frozen=True):
    """How many connections and channels the sender has, by what they count towards.

    `is_whole`: what is not named has none; else it has what it had.
    """

    is_whole: bool
    counts: tuple[tuple[str, str, int], ...]


class Ping(_Tagged, frozen=True):
    pass


Request: TypeAlias = Consume | Get | Purge | Counts | Delete


class BecomeMirror(_Tagged, frozen=True):
    """The master of a mirrored queue would like the other node to hold a copy."""

    vhost: str
    queue: str
    uid: str


class HeldCopy(msgspec.Struct, frozen=True, array_like=True):
    """A mirror holds everything up to this batch of its master, on disk if need be."""

    uid: str
    member: str
    epoch: int
    number: int


class Held(_Tagged, frozen=True):
    """How far the mirrors of a node have come, of the queues that another node leads."""

    copies: tuple[HeldCopy, ...]


class OutOfReach(_Tagged, frozen=True):
    """A mirror tells its master that it cannot reach its neighbour in the ring."""

    uid: str
    member: str
    suspect: str


class Kept(_Tagged, frozen=True):
    """A mirror comes with these messages from before: level, first number and count of each run."""

    uid: str
    member: str
    epoch: int
    runs: list[tuple[int, int, int]]
    used_below: dict[int, int]
    """By level: where it may have had others."""
    used_from: dict[int, int] = {}
    """By level: its disk has never heard of a message with a lower number."""


MirrorNews: TypeAlias = BecomeMirror | Held | OutOfReach | Kept
OfAsker: TypeAlias = Inquire | WantMore | Dismiss
OfAnswerer: TypeAlias = AnswerBegins | AnswerPart
Control: TypeAlias = (
    Hello
    | Welcome
    | Proof
    | Accepted
    | Refused
    | OpenQueue
    | QueueOpened
    | CloseQueue
    | NoSuchQueue
    | Consume
    | Get
    | Purge
    | Counts
    | Delete
    | Done
    | Failed
    | Gone
    | Inquire
    | AnswerBegins
    | AnswerPart
    | WantMore
    | Dismiss
    | CancelConsumer
    | ConsumerCancelled
    | Grant
    | Applied
    | Counted
    | BecomeMirror
    | Held
    | OutOfReach
    | Kept
    | Ping
)

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Control)


class MalformedControl(Exception):
    """Not what a node of this protocol sends."""


def encode_control(control: Control) -> bytes:
    return CONTROL_CLASS + _ENCODER.encode(control)


def encode_acked(first: int, count: int) -> bytes:
    return _ACKED.pack(ACKED_IDS, first, count)


def decode_acked(payload: bytes) -> tuple[int, int]:
    """The first tag and how many."""
    try:
        _, first, count = _ACKED.unpack(payload)
    except struct.error:
        raise MalformedControl(f"acknowledgements in {payload[:20]!r}") from None
    return first, count


def is_control(payload: bytes) -> bool:
    return payload.startswith(CONTROL_CLASS)


def decode_control(payload: bytes) -> Control:
    try:
        control: Control = _DECODER.decode(memoryview(payload)[len(CONTROL_CLASS) :])
    except UNREADABLE as error:
        raise MalformedControl(f"{error} in {payload[:60]!r}") from None
    return control
