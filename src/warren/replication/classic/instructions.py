"""What a master tells its mirrors: which messages came, and which are gone.

RabbitMQ's master tells every step: publish, publish-delivered, fetch, drop, ack, requeue. A mirror
there keeps apart what is ready and what a client has. Ours need not: whoever becomes master offers
everything again that was not acknowledged, in its old place, so *delivered to somebody* and *back
from somebody* make no difference to a copy. What is left is

    publish (in whatever way)                               the message, under its sequence number
    ack, reject, expiry, drop-head, delivered without ack   its number is gone
    fetch, requeue                                          nothing

and the rule that makes a copy a copy: **a mirror holds exactly the messages of the master that are
numbered from its boundary on.** A new mirror is empty and its boundary is the next number. As
older messages leave the master, or are sent after (`Older`, which lowers the boundary), a moment
comes when the master has none below it: then the mirror is synchronised.

Instructions go out in batches, all that one turn of the loop brought, and one batch is one
broadcast of the ring. In a batch publishes come first: numbers are never used twice, so what is
both published and gone in one batch is simply gone, and nothing else depends on the order.

That numbers are never used twice is a promise over all masters of a group, and all disks: a master
that died may have given numbers to messages that nobody has heard of, and will come back with them.
So each epoch has a range of numbers of its own, and a new master begins at the start of its range
(`first_sequence_of`). Two copies of one group that have a message of the same number have the same
message, whoever told them, and when.

Batches are numbered by their master, and a new master goes on with the number after the last one
it heard: all copies have heard the same, so a number stands for the same batch everywhere.

On the wire a batch is its number, a msgpack header, in which consecutive numbers are runs, and
then the messages as the content frames that clients send: the kernel that scans and writes those
is the fastest code we have.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

import msgspec

from warren.model.unreadable import UNREADABLE
from warren.replication.classic.message_frames import NotMessages, decode_messages
from warren.wire.codec import Message

_HEAD: Final = struct.Struct(">QI")
"""The batch's number, the length of the header."""

EPOCH_SHIFT: Final = 42
"""Numbers of an epoch: what a master at 100 000 messages a second uses in more than a year."""

Run: TypeAlias = tuple[int, int, int]
"""Level (priority), first sequence number, how many."""
RemovedRun: TypeAlias = tuple[int, int, int, int]
"""And how many bytes of bodies."""
OriginRun: TypeAlias = tuple[str, int, int]
"""Who published (empty: nobody waits for it), its first number, how many."""


class Changes(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Messages came, in the order of the frames that follow, and messages went."""

    published: tuple[Run, ...]
    origins: tuple[OriginRun, ...]
    expiries: tuple[int, ...]
    """One per message, or none at all if none of them expires."""
    removed: tuple[RemovedRun, ...]


class Purged(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """All below these numbers, by level, went, but for some that clients have."""

    below: dict[int, int]
    kept: tuple[Run, ...]


class Boundary(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A member begins here: what is numbered lower it has never been told."""

    member: str
    boundary: dict[int, int]
    numbers: dict[str, int]
    """The last number of each origin that the master has taken."""
    lacking: int
    """How many messages there are below."""


class Older(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """For members whose boundary at this level is `below`: these are all from `boundary` to there.

    The messages follow, newest first.
    """

    level: int
    below: int
    boundary: int
    sequences: tuple[int, ...]
    expiries: tuple[int, ...]


class Resumed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A member comes back with messages from before: of these it keeps `kept`, and goes on.

    They are all the master has from `boundary` to below `upto`, by level; what is newer follows
    (`Newer`).
    """

    member: str
    kept: tuple[Run, ...]
    upto: dict[int, int]
    numbers: dict[str, int]
    boundary: dict[int, int] = {}


class Newer(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """For a member that comes back: all from `start`, where it had got to, to before `end`.

    `is_last`: then it has all there are from its boundary on, and lacks so many below.
    """

    member: str
    level: int
    start: int
    end: int
    sequences: tuple[int, ...]
    expiries: tuple[int, ...]
    is_last: bool
    lacking: int = 0


Instruction: TypeAlias = Changes | Purged | Boundary | Older | Resumed | Newer

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Instruction)


class MalformedInstruction(Exception):
    """Not what a master of this version sends."""


def first_sequence_of(epoch: int) -> int:
    return epoch << EPOCH_SHIFT


def epoch_of(sequence: int) -> int:
    """The first epoch that may have used the number; epochs begin with 1."""
    return max(1, sequence >> EPOCH_SHIFT)


def encode(number: int, instruction: Instruction, frames: bytes = b"") -> bytes:
    header = _ENCODER.encode(instruction)
    return _HEAD.pack(number, len(header)) + header + frames


def decode(payload: bytes | memoryview) -> tuple[int, Instruction, list[Message]]:
    """The batch's number, what it says, and its messages."""
    data = memoryview(payload)
    try:
        number, length = _HEAD.unpack_from(data)
        start = _HEAD.size + length
        instruction: Instruction = _DECODER.decode(data[_HEAD.size : start])
    except (struct.error, *UNREADABLE) as error:
        raise MalformedInstruction(str(error)) from None
    try:
        messages = decode_messages(data[start:]) if start < len(data) else []
    except NotMessages:
        raise MalformedInstruction("something that is not a message") from None
    return number, instruction, messages
