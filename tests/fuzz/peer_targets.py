"""Fuzz targets: what clients say before they are known, and what nodes tell each other's copies."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from fuzz.found import Found
from warren.model.errors import HardError
from warren.model.fields import EMPTY_TABLE
from warren.protocol.handshake import Handshake, HandshakeSettings
from warren.protocol.negotiation import MethodReceived, ProtocolHeader
from warren.protocol.sasl import Credentials
from warren.replication.classic import instructions
from warren.replication.stream import stream_instructions
from warren.wire.methods import decode_method, encode_method

IDS_BYTES: Final = 4
_SETTINGS: Final = HandshakeSettings(EMPTY_TABLE)


def method(data: bytes) -> None:
    """A method frame's payload; one that is understood is the same when it is written again."""
    if len(data) < IDS_BYTES:  # the reader of frames refuses these
        return
    try:
        found = decode_method(data)
    except HardError:
        return
    written = encode_method(found)
    if encode_method(decode_method(written)) != written:
        raise Found(f"{found} is another one when it is written")


def greeting(data: bytes) -> None:
    """A connection that is negotiated: the protocol header, and a method a line behind it."""
    first, *methods = data.split(b"\n\n")
    machine = Handshake(_SETTINGS, _let_in, _open)
    actions = machine.handle(ProtocolHeader(first[:8]))
    for payload in methods:
        if len(payload) < IDS_BYTES:
            continue
        try:
            event = MethodReceived(decode_method(payload))
        except HardError:
            continue
        actions += machine.handle(event)
    for action in actions:
        repr(action)


def _let_in(_mechanism: str, credentials: Credentials) -> str:
    return credentials.username


def _open(_user: str, _vhost: str) -> None:
    """Every virtual host is there."""


def copies(data: bytes) -> None:
    """What a master tells the mirrors of a queue or a stream."""
    with suppress(instructions.MalformedInstruction):
        instructions.decode(data)
    try:
        _, _, chunks = stream_instructions.decode(data)
        for chunk in stream_instructions.chunks_in(chunks, 0):
            repr(chunk)
    except instructions.MalformedInstruction:
        return
