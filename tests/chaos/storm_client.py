"""A client for storms: small enough to have two thousand of them in one process."""

from __future__ import annotations

import asyncio
import random
import struct
from typing import Final

from acceptance.raw_client import (
    BODY,
    HEADER,
    METHOD,
    PROTOCOL_HEADER,
    Login,
    frame_bytes,
    header_payload,
)
from acceptance.raw_methods import decode_method, encode_method
from broker_process import Address

ANSWER_WITHIN_S: Final = 120.0


def greeting() -> bytes:
    """The whole handshake and the first channel, without waiting for the broker's part."""
    login = Login()
    methods = [
        (0, encode_method(
            "connection.start-ok", client_properties=login.client_properties,
            mechanism="PLAIN", response=login.plain, locale="en_US",
        )),
        (0, encode_method(
            "connection.tune-ok", channel_max=2047, frame_max=131072, heartbeat=0
        )),
        (0, encode_method("connection.open", virtual_host="/")),
        (1, encode_method("channel.open")),
    ]  # fmt: skip
    return PROTOCOL_HEADER + b"".join(frame_bytes(METHOD, *method) for method in methods)


GREETING: Final = greeting()


class StormClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, address: Address) -> StormClient:
        return cls(*await asyncio.open_connection(*address))

    async def open(self) -> None:
        self.writer.write(GREETING)
        await self.await_method("channel.open-ok")

    def send(self, method: str, **fields: object) -> None:
        self.writer.write(frame_bytes(METHOD, 1, encode_method(method, **fields)))

    def publish(self, queue: str, body: bytes) -> None:
        self.send("basic.publish", routing_key=queue)
        self.writer.write(frame_bytes(HEADER, 1, header_payload(len(body), b"\0\0")))
        self.writer.write(frame_bytes(BODY, 1, body))

    async def await_method(self, name: str) -> None:
        """Reads frames until this method comes."""
        async with asyncio.timeout(ANSWER_WITHIN_S):
            while True:
                kind, _, size = struct.unpack(">BHI", await self._reader.readexactly(7))
                payload = await self._reader.readexactly(size + 1)
                if kind == METHOD and decode_method(payload[:-1]).name == name:
                    return

    async def work(self, queue: str, messages: int) -> None:
        """Publish to a queue of its own and consume it all."""
        self.send("queue.declare", queue=queue, exclusive=True)
        self.send("basic.consume", queue=queue, no_ack=True)
        for _ in range(messages):
            self.publish(queue, b"x" * 200)
        for _ in range(messages):
            await self.await_method("basic.deliver")

    def stop_reading_a_flood(self, queue: str) -> None:
        """Ask for more than fits into the socket and never read it."""
        self.send("queue.declare", queue=queue, exclusive=True)
        self.send("basic.consume", queue=queue)
        for _ in range(30):
            self.publish(queue, b"x" * 10_000)

    async def leave(self, chance: random.Random) -> None:
        """Politely, by hanging up, by a reset, or in the middle of a frame."""
        way = chance.choice(["politely", "hang-up", "reset", "mid-frame"])
        if way == "politely":
            close = encode_method("connection.close", reply_code=200)
            self.writer.write(frame_bytes(METHOD, 0, close))
            await self.await_method("connection.close-ok")
        elif way == "mid-frame":
            self.writer.write(b"\x01\x00\x01\x00\x00\x00\x20\x00")
        if way == "reset":
            self.writer.transport.abort()
        self.writer.close()
