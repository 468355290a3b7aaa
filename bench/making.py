"""Makes many things over AMQP: clients that each send the next method when one is answered."""

from __future__ import annotations

import selectors
import time
from collections.abc import Sequence
from typing import Final

from bench.client import ANSWER_S_MAX, Client, encode

CLIENTS_PER_NODE: Final = 10
CLOSES: Final = (b"\x00\x14\x00\x28", b"\x00\x0a\x00\x32")


class Maker:
    """One connection with its part of the methods, the next one sent when one is answered."""

    def __init__(self, port: int, methods: Sequence[object]) -> None:
        self.client = Client(port)
        self._methods = iter(methods)

    def send_next(self) -> bool:
        """Return False when everything has been answered."""
        method = next(self._methods, None)
        if method is not None:
            self.client.socket.sendall(encode(method))
        return method is not None

    def receive(self) -> None:
        payload = self.client.frame()
        if payload[:4] in CLOSES:
            raise RuntimeError(f"a method was refused: {payload[7:]!r}")


def make(ports: Sequence[int], methods: Sequence[object]) -> float:
    """Send all methods, spread over the nodes, and return how many seconds that takes."""
    count = min(CLIENTS_PER_NODE * len(ports), len(methods))
    with selectors.DefaultSelector() as selector:
        makers = [Maker(ports[n % len(ports)], methods[n::count]) for n in range(count)]
        for maker in makers:
            selector.register(maker.client.socket, selectors.EVENT_READ, maker)
        began = time.monotonic()
        busy = sum(maker.send_next() for maker in makers)
        while busy:
            ready = selector.select(ANSWER_S_MAX)
            if not ready:
                raise RuntimeError(f"no answer in {ANSWER_S_MAX:g} s")
            for key, _ in ready:
                key.data.receive()
                busy -= not key.data.send_next()
        elapsed = time.monotonic() - began
        for maker in makers:
            maker.client.close()
    return elapsed
