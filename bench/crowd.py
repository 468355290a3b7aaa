"""A crowd of clients in one process: a connection, a channel and a consumer each, that then idle.

The bench starts it as a program, with the names of the queues on its standard input. It prints a
line when all clients have their consumer, and one more whenever clients that lost their connection
have been answered again, at another node, where they connect at once. Heartbeats are sent in time,
a part of them every second, so that the broker is not met by all of them in the same moment.
"""

from __future__ import annotations

import argparse
import errno
import json
import selectors
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from pamqp.commands import Basic, Channel, Connection

from bench.brokers import PROTOCOL_HEADER, allow_many_files
from bench.client import FRAME_HEAD_BYTES, RECEIVED_BYTES, encode

OPENING_MAX: Final = 200
"""Clients that shake hands at the same time: a broker's listen queue holds some hundreds."""
TICK_S: Final = 1.0
HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
START, CLOSE = b"\x00\x0a\x00\x0a", b"\x00\x0a\x00\x32"
CONSUME_OK, CHANNEL_CLOSE = b"\x00\x3c\x00\x15", b"\x00\x14\x00\x28"


@dataclass(eq=False)
class Member:
    number: int
    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)
    is_answered: bool = False


class Crowd:
    """Client n consumes from the n-th of the queues, at the nodes in turn."""

    def __init__(self, ports: list[int], queues: list[str], heartbeat_s: int) -> None:
        self._ports, self._queues, self._heartbeat_s = ports, queues, heartbeat_s
        self._selector = selectors.DefaultSelector()
        self._to_open = deque(range(len(queues)))
        self._opening = 0
        self._members: dict[int, Member] = {}
        self._began = time.monotonic()
        self._refused = 0
        self._lost = 0
        self._next_beat = 0

    def run(self) -> None:
        beat_at = time.monotonic() + TICK_S
        is_ready = False
        while True:
            while self._to_open and self._opening < OPENING_MAX:
                self._open(self._to_open.popleft())
            for key, _ in self._selector.select(max(beat_at - time.monotonic(), 0)):
                self._receive(key.data)
            if not self._opening and not self._to_open and not is_ready:
                self._tell()
            is_ready = not self._opening and not self._to_open
            if time.monotonic() >= beat_at:
                beat_at += TICK_S
                self._send_heartbeats()

    def _tell(self) -> None:
        seconds = time.monotonic() - self._began
        line = {"seconds": seconds, "lost": self._lost, "refused": self._refused}
        print(json.dumps(line), flush=True)
        self._lost = self._refused = 0

    def _open(self, number: int) -> None:
        port = self._ports[number % len(self._ports)]
        try:
            client = socket.create_connection(("127.0.0.1", port), 30)
            client.sendall(PROTOCOL_HEADER)
        except OSError as failure:
            if failure.errno != errno.ECONNREFUSED:
                raise
            self._leave_out(port)
            self._to_open.append(number)
            return
        client.setblocking(False)
        member = self._members[number] = Member(number, client)
        self._opening += 1
        self._selector.register(client, selectors.EVENT_READ, member)

    def _leave_out(self, port: int) -> None:
        """Connect to other nodes from now on: this one is gone."""
        if port in self._ports:
            self._ports.remove(port)
        if not self._ports:
            sys.exit("no node takes connections")

    def _receive(self, member: Member) -> None:
        try:
            octets = member.socket.recv(RECEIVED_BYTES)
        except BlockingIOError:
            return
        except OSError:
            octets = b""
        if not octets:
            self._forget(member)
            return
        member.received += octets
        self._take_frames(member)

    def _take_frames(self, member: Member) -> None:
        received = member.received
        while len(received) >= FRAME_HEAD_BYTES:
            end = FRAME_HEAD_BYTES + int.from_bytes(received[3:7], "big") + 1
            if len(received) < end:
                return
            method = bytes(received[FRAME_HEAD_BYTES : FRAME_HEAD_BYTES + 4])
            del received[:end]
            if method == START:
                member.socket.sendall(self._answers(member.number))
            elif method in {CONSUME_OK, CHANNEL_CLOSE} and not member.is_answered:
                self._refused += method == CHANNEL_CLOSE
                self._opening -= 1
                member.is_answered = True
            elif method == CLOSE:
                member.socket.sendall(encode(Connection.CloseOk(), 0))

    def _answers(self, number: int) -> bytes:
        """All that the client has to say, in one piece: it needs to know no answer for it."""
        return (
            encode(Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"), 0)
            + encode(Connection.TuneOk(2047, 131_072, self._heartbeat_s), 0)
            + encode(Connection.Open("/"), 0)
            + encode(Channel.Open())
            + encode(Basic.Consume(queue=self._queues[number]))
        )

    def _forget(self, member: Member) -> None:
        if not self._lost:
            self._began = time.monotonic()
        self._lost += 1
        self._opening -= not member.is_answered
        self._selector.unregister(member.socket)
        member.socket.close()
        del self._members[member.number]
        self._to_open.append(member.number)

    def _send_heartbeats(self) -> None:
        """Send one to each client in half of the time that was agreed on."""
        if not self._heartbeat_s or not self._members:
            return
        members = list(self._members.values())
        ticks = max(int(self._heartbeat_s / 2 / TICK_S), 1)
        self._next_beat = (self._next_beat + 1) % ticks
        for member in members[self._next_beat :: ticks]:
            if member.is_answered:
                try:
                    member.socket.send(HEARTBEAT)
                except OSError:
                    continue  # it is forgotten when it is read from


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.crowd")
    parser.add_argument("--ports", required=True)
    parser.add_argument("--heartbeat", type=int, default=60)
    options = parser.parse_args()
    allow_many_files()
    ports = [int(port) for port in options.ports.split(",")]
    Crowd(ports, sys.stdin.read().split(), options.heartbeat).run()


if __name__ == "__main__":
    main()
