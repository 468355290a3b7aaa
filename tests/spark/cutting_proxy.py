"""Stands between a client and a broker, and cuts the first answers short."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

RECEIVE_BYTES: Final = 65_536


class CuttingProxy:
    """Of the first `cuts` connections, no more than so many bytes of answers come through."""

    def __init__(self, target: tuple[str, int], bytes_max: int, cuts: int) -> None:
        self._target = target
        self._bytes_max = bytes_max
        self._cuts_left = cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts_made = 0
        self.bytes_passed = 0
        self._clients: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()

    def hang_up(self) -> None:
        """On everybody, as a server does that has waited long enough for another request."""
        for client in self._clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._clients.append(client)
                broker = socket.create_connection(self._target)
                limit = self._bytes_max if self._cuts_left > 0 else None
                self._cuts_left -= 1
                threading.Thread(target=_forward, args=(client, broker), daemon=True).start()
                answers = (broker, client, limit)
                threading.Thread(target=self._answer, args=answers, daemon=True).start()

    def _answer(self, broker: socket.socket, client: socket.socket, limit: int | None) -> None:
        passed = 0
        with broker, client, suppress(OSError):
            while data := broker.recv(RECEIVE_BYTES):
                if limit is not None and passed + len(data) > limit:
                    self.cuts_made += 1
                    client.sendall(data[: limit - passed])
                    client.shutdown(socket.SHUT_RDWR)
                    return
                passed += len(data)
                self.bytes_passed += len(data)
                client.sendall(data)


def _forward(client: socket.socket, broker: socket.socket) -> None:
    with suppress(OSError):
        while data := client.recv(RECEIVE_BYTES):
            broker.sendall(data)
        broker.shutdown(socket.SHUT_WR)
