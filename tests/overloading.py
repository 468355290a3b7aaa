"""Overloading a broker: a client that sends the same frames again and again, until it is enough."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from acceptance.raw_client import RawClient

SENT_WITHIN_S: Final = 180.0


@contextmanager
def overloading(client: RawClient, frames: bytes) -> Iterator[None]:
    """Sends these again and again."""
    is_enough = threading.Event()
    client.socket.settimeout(SENT_WITHIN_S)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)

    def send() -> None:
        while not is_enough.is_set():
            client.send_bytes(frames)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        is_enough.set()
        sender.join()
