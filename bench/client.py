"""The least client: it sends what it is given and reads frames."""

from __future__ import annotations

import socket
from typing import Any, Final, cast

from pamqp import frame as frames
from pamqp.commands import Channel, Connection

from bench.brokers import PROTOCOL_HEADER

ANSWER_S_MAX: Final = 30.0
FRAME_HEAD_BYTES: Final = 7
RECEIVED_BYTES: Final = 65_536


class Client:
    """One connection with one channel, as guest."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), ANSWER_S_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self._open()

    def send(self, method: object, channel: int = 1) -> None:
        self.socket.sendall(encode(method, channel))

    def frame(self) -> bytes:
        """The payload of the next one; TimeoutError keeps what has come of it."""
        while len(self._received) < FRAME_HEAD_BYTES or len(self._received) < self._end():
            octets = self.socket.recv(RECEIVED_BYTES)
            if not octets:
                raise RuntimeError("the broker closed the connection")
            self._received += octets
        end = self._end()
        payload, self._received = self._received[FRAME_HEAD_BYTES:end], self._received[end:]
        return payload

    def close(self) -> None:
        self.socket.close()

    def _end(self) -> int:
        return FRAME_HEAD_BYTES + int.from_bytes(self._received[3:7], "big") + 1

    def _open(self) -> None:
        self.socket.sendall(PROTOCOL_HEADER)
        self.frame()
        plain = Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US")
        for method, channel, is_answered in (
            (plain, 0, True),
            (Connection.TuneOk(2047, 131_072, 0), 0, False),
            (Connection.Open("/"), 0, True),
            (Channel.Open(), 1, True),
        ):
            self.send(method, channel)
            if is_answered:
                self.frame()


def encode(method: object, channel: int = 1) -> bytes:
    return frames.marshal(cast("Any", method), channel)
