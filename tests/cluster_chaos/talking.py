"""A client's connection that keeps its heartbeat and knows when it has been waiting for too long.

A broker that is silent for two heartbeats is gone, and the client is right to hang up: that is what
heartbeats are for. A broker that keeps beating but does not answer makes its client hang, and that
is what must not be.
"""

from __future__ import annotations

import time
from typing import Any, Final

from acceptance.raw_client import (
    HEARTBEAT,
    METHOD,
    ConnectionEnded,
    Frame,
    Login,
    RawClient,
    frame_bytes,
)
from acceptance.raw_methods import Method, decode_method
from broker_process import Address

HEARTBEAT_S: Final = 10
# The session of a dead node (6 s), the patience with etcd (10 s), the wait for nodes that live but
# cannot be heard (8 s), and as much again for a machine that has other work.
ANSWER_S_MAX: Final = HEARTBEAT_S + 50
_BEAT: Final = frame_bytes(HEARTBEAT, 0, b"")


class Hangs(Exception):
    """The broker beats but does not answer."""


class ChannelClosed(Exception):
    def __init__(self, close: Method) -> None:
        super().__init__(f"{close.reply_code} {close.reply_text}")
        self.code: int = close.reply_code
        self.text: str = close.reply_text


class ConnectionClosed(ConnectionEnded):
    """By the broker, with a reason."""

    def __init__(self, close: Method) -> None:
        super().__init__(f"{close.reply_code} {close.reply_text}")
        self.code: int = close.reply_code


# What a client gets from a broker that is hurt.
Trouble = (ConnectionEnded, ChannelClosed, OSError)


class Talk:
    def __init__(self, address: Address) -> None:
        self.client = RawClient(address)
        try:
            self.client.open(Login(heartbeat=HEARTBEAT_S))
        except AssertionError as error:  # a node that is stopping says so in the midst of it
            self.client.drop()
            raise ConnectionEnded(str(error)) from None
        self._heard_at = self._beat_at = time.monotonic()

    def close(self) -> None:
        self.client.drop()

    def send(self, name: str, **fields: Any) -> None:
        self.client.send(1, name, **fields)

    def ask(self, name: str, **fields: Any) -> Method:
        """Its answer; raises what `Trouble` names, or Hangs."""
        self.send(name, **fields)
        return self.await_method(f"{name}-ok")

    def await_method(self, name: str) -> Method:
        deadline = time.monotonic() + ANSWER_S_MAX
        while time.monotonic() < deadline:
            frame = self.receive(1.0)
            if frame is not None and frame.type == METHOD:
                method = decode_method(frame.payload)
                if method.name == name:
                    return method
        raise Hangs(f"no {name} within {ANSWER_S_MAX} s of heartbeats")

    def receive(self, within_s: float) -> Frame | None:
        """The next frame that is no heartbeat, if there is one in time."""
        deadline = time.monotonic() + within_s
        while True:
            self._beat()
            try:
                frame = self.client.receive(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                self._require_alive()
                return None
            self._heard_at = time.monotonic()
            if frame.type != HEARTBEAT:
                return self._looked_at(frame)
            if time.monotonic() > deadline:
                return None

    def _beat(self) -> None:
        if time.monotonic() - self._beat_at > HEARTBEAT_S / 3:
            self._beat_at = time.monotonic()
            self.client.socket.settimeout(2 * HEARTBEAT_S)
            self.client.send_bytes(_BEAT)

    def _require_alive(self) -> None:
        if time.monotonic() - self._heard_at > 2 * HEARTBEAT_S:
            raise ConnectionEnded("two heartbeats were missed")

    def _looked_at(self, frame: Frame) -> Frame:
        if frame.type != METHOD:
            return frame
        if frame.payload[:4] == b"\x00\x0a\x00\x32":
            raise ConnectionClosed(decode_method(frame.payload))
        if frame.payload[:4] == b"\x00\x14\x00\x28":
            raise ChannelClosed(decode_method(frame.payload))
        return frame
