"""The large things that a client does while another one's confirms are timed (fairness.py).

The client is as cheap as it can be, so that it takes no processor from those it is to disturb.
"""

from __future__ import annotations

import http.client
import json
import time
from base64 import b64encode
from typing import Any, Final, cast

from pamqp import header
from pamqp.body import ContentBody
from pamqp.commands import Basic, Exchange, Queue

from bench.brokers import Broker
from bench.client import Client, encode
from warren.client.reader import ClientReader

BLOCK: Final = 1_000
WAIT_S: Final = 60.0
RECEIVED_BYTES: Final = 1 << 20
FRAME_MAX: Final = 131_072
IMPORT_S_MAX: Final = 300
_GUEST: Final = b64encode(b"guest:guest").decode()


class Attacker:
    """A client with a queue called `large`, and an exchange of that name."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._client = Client(broker.port)
        self._reader = ClientReader(FRAME_MAX)
        self._taken = 0

    def close(self) -> None:
        self._client.close()

    # Messages.

    def fill(self, count: int, is_persistent: bool = False) -> None:
        """Have so many messages in the queue."""
        self._call(Queue.Declare(queue="large", durable=True), Queue.DeclareOk)
        block = _publishes("", "large", BLOCK, is_persistent)
        for _ in range(count // BLOCK):
            self._client.socket.sendall(block)
        self._await_ready(count // BLOCK * BLOCK)

    def hold(self, count: int) -> None:
        """Have so many messages in the queue, and then unacknowledged."""
        self.fill(count)
        self._taken = 0
        self._client.send(Basic.Consume(queue="large", consumer_tag="it"))
        while self._taken < count // BLOCK * BLOCK:
            self._receive()

    def cancel(self) -> None:
        self._call(Basic.Cancel("it"), Basic.CancelOk)

    def nack(self) -> None:
        """Return all that is unacknowledged; the consumer gets it again until it is cancelled."""
        self._client.send(Basic.Nack(0, True, True))
        self.cancel()

    def ack(self) -> None:
        """Acknowledge all that is unacknowledged."""
        self._client.send(Basic.Ack(0, True))
        self.cancel()

    def purge(self) -> None:
        self._call(Queue.Purge(queue="large"), Queue.PurgeOk)

    def delete_queue(self) -> None:
        self._call(Queue.Delete(queue="large"), Queue.DeleteOk)

    # Bindings.

    def bind(self, bindings: int, queues: int) -> None:
        """Have an exchange with so many bindings to so many queues."""
        if self._broker.http_port:
            self.import_bindings("large", bindings, queues)
            return
        type_ = _type_for(queues)
        self._call(Exchange.Declare(exchange="large", exchange_type=type_, durable=True))
        for number in range(queues):
            name = f"large-{number}"
            self._client.send(Queue.Declare(queue=name, durable=True, nowait=True))
        for number in range(bindings):
            queue, key = f"large-{number % queues}", str(number)
            self._client.send(
                Queue.Bind(queue=queue, exchange="large", routing_key=key, nowait=True)
            )
        self._call(Basic.Qos(), Basic.QosOk)

    def delete_exchange(self) -> None:
        self._call(Exchange.Delete(exchange="large"))

    def publish_widely(self) -> None:
        """Publish a persistent message to all queues; the next answer comes after it."""
        self._client.socket.sendall(_publishes("large", "", 1, True))
        self._call(Basic.Qos(), Basic.QosOk)

    def import_bindings(self, name: str, bindings: int, queues: int = 1) -> None:
        """Import definitions of an exchange with so many bindings to so many queues."""
        ends = {"vhost": "/", "durable": True, "arguments": {}}
        document = {
            "exchanges": [{"name": name, "type": _type_for(queues), **ends}],
            "queues": [{"name": f"{name}-{n}", **ends} for n in range(queues)],
            "bindings": [
                {
                    "source": name, "vhost": "/", "destination": f"{name}-{n % queues}",
                    "destination_type": "queue", "routing_key": str(n), "arguments": {},
                }
                for n in range(bindings)
            ],
        }  # fmt: skip
        http_port = self._broker.http_port
        connection = http.client.HTTPConnection("127.0.0.1", http_port, timeout=IMPORT_S_MAX)
        headers = {"Authorization": f"Basic {_GUEST}", "Content-Type": "application/json"}
        connection.request("POST", "/api/definitions", json.dumps(document), headers)
        response = connection.getresponse()
        response.read()
        connection.close()
        if response.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"definitions were not imported: {response.status}")

    # Answers.

    def _await_ready(self, count: int) -> None:
        ends = time.monotonic() + WAIT_S
        passive = Queue.Declare(queue="large", passive=True)
        while _count_of(self._call(passive, Queue.DeclareOk)) < count:
            if time.monotonic() > ends:
                raise RuntimeError("the messages did not come")
            time.sleep(0.1)

    def _call(self, method: object, answer: type | None = None) -> bytes:
        """Send a method and return the payload of its answer; deliveries are counted."""
        self._client.send(method)
        wanted = None if answer is None else cast("Any", answer).index.to_bytes(4, "big")
        while True:
            for payload in self._receive():
                if wanted is None or payload.startswith(wanted):
                    return payload

    def _receive(self) -> list[bytes]:
        octets = self._client.socket.recv(RECEIVED_BYTES)
        if not octets:
            raise RuntimeError("the broker closed the connection")
        answers = self._reader.feed(octets)
        self._taken += len(self._reader.deliveries)
        self._reader.deliveries.clear()
        return [each.payload for each in answers if hasattr(each, "payload")]


def _type_for(queues: int) -> str:
    return "fanout" if queues > 1 else "direct"


def _publishes(exchange: str, key: str, count: int, is_persistent: bool) -> bytes:
    body = b"x" * 20
    properties = Basic.Properties(delivery_mode=2 if is_persistent else 1)
    head = cast("Any", header.ContentHeader)(0, len(body), properties)
    publish = Basic.Publish(exchange=exchange, routing_key=key)
    return (encode(publish) + encode(head) + encode(ContentBody(body))) * count


def _count_of(declare_ok: bytes) -> int:
    return int.from_bytes(declare_ok[-8:-4], "big")
