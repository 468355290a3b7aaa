"""Sending messages for good, and looking at what has become of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from acceptance.actions import eventually
from acceptance.raw_client import (
    BODY,
    HEADER,
    METHOD,
    RawClient,
    encode_properties,
    frame_bytes,
    header_payload,
)
from acceptance.raw_methods import decode_method, encode_method
from broker_process import BrokerProcess

FRAME_PAYLOAD_MAX: Final = 131072 - 8
WINDOW: Final = 500
ANSWER_WITHIN_S: Final = 60.0
DECLARE_OK: Final = b"\x00\x32\x00\x0b"
# At what a queue still has to give; fewer if it says that it has nothing.
QUIET_LOOKS: Final = 25
PERSISTENT: Final = 2
PERSISTENT_BLOCK: Final = encode_properties(delivery_mode=PERSISTENT)
# On both sides of what is embedded in the index, and of a page.
SIZES: Final = [0, 1, 100, 1000, 4000, 4092, 4093, 4096, 5000, 20_000]


class Mail(NamedTuple):
    body: bytes
    redelivered: bool
    tag: int
    properties: dict[str, Any]


@contextlib.contextmanager
def client_of(broker: BrokerProcess, channels: int = 1) -> Iterator[RawClient]:
    with RawClient(broker.address).open(channels=channels) as client:
        yield client


def content_frames(body: bytes, properties: bytes) -> bytes:
    frames = [frame_bytes(HEADER, 1, header_payload(len(body), properties))]
    starts = range(0, len(body), FRAME_PAYLOAD_MAX)
    frames += (frame_bytes(BODY, 1, body[start : start + FRAME_PAYLOAD_MAX]) for start in starts)
    return b"".join(frames)


def publish_frames(body: bytes, properties: bytes, **to: Any) -> bytes:
    method = frame_bytes(METHOD, 1, encode_method("basic.publish", **to))
    return method + content_frames(body, properties)


def declare(client: RawClient, queue: str, **arguments: Any) -> int:
    """A durable queue; how many messages are ready in it."""
    answer = client.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
    count = answer.message_count
    assert isinstance(count, int)
    return count


def declare_in(broker: BrokerProcess, queue: str, **arguments: Any) -> None:
    with client_of(broker) as client:
        declare(client, queue, **arguments)


def ready(client: RawClient, queue: str) -> int:
    count = client.call(1, "queue.declare", queue=queue, passive=True).message_count
    assert isinstance(count, int)
    return count


class Confirms:
    """The answers to what a channel publishes after confirm.select."""

    def __init__(self, client: RawClient) -> None:
        client.call(1, "confirm.select")
        self._client = client
        self.sent = 0
        self.frames = 0
        self.acked: set[int] = set()
        self.nacked: set[int] = set()
        self._answered_below = 1

    @property
    def open_count(self) -> int:
        return self.sent - len(self.acked) - len(self.nacked)

    def publish(self, body: bytes, properties: bytes, **to: Any) -> int:
        """Returns the number its answer will carry."""
        self.sent += 1
        self._client.send_bytes(publish_frames(body, properties, **to))
        return self.sent

    def receive(self, within_s: float = ANSWER_WITHIN_S) -> None:
        """One frame of answers."""
        frame = self._client.receive(within_s)
        answer = frame.payload[:4]
        assert answer in {b"\x00\x3c\x00\x50", b"\x00\x3c\x00\x78"}, f"not an answer: {frame}"
        tag, multiple = int.from_bytes(frame.payload[4:12]), frame.payload[12] & 1
        target, other = self.acked, self.nacked
        if answer[3] != 0x50:
            target, other = other, target
        first = self._answered_below if multiple else tag
        target.update(n for n in range(first, tag + 1) if n not in other)
        if multiple:
            self._answered_below = tag + 1
        self.frames += 1

    def wait(self, open_max: int = 0, within_s: float = ANSWER_WITHIN_S) -> None:
        deadline = time.monotonic() + within_s
        while self.open_count > open_max:
            self.receive(max(0.01, deadline - time.monotonic()))


def send(
    broker: BrokerProcess,
    bodies: Iterable[bytes],
    to: str = "",
    exchange: str = "",
    **properties: Any,
) -> None:
    """Persistent unless told otherwise, and confirmed when this returns."""
    block = encode_properties(**{"delivery_mode": PERSISTENT, **properties})
    with client_of(broker) as client:
        confirms = Confirms(client)
        for body in bodies:
            confirms.publish(body, block, exchange=exchange, routing_key=to)
            confirms.wait(open_max=WINDOW)
        confirms.wait()
        assert not confirms.nacked, f"nacked: {sorted(confirms.nacked)[:10]}"


def receive_mail(client: RawClient, within_s: float = ANSWER_WITHIN_S) -> Mail:
    content = client.expect_content(1, "basic.deliver", within_s)
    method = content.method
    return Mail(content.body, method.redelivered, method.delivery_tag, content.properties)


def look(client: RawClient, queue: str, count: int | None = None) -> list[Mail]:
    """All that is ready, or the first `count`: taken by the channel, and not acknowledged."""
    wanted = ready(client, queue) if count is None else count
    client.call(1, "basic.qos", prefetch_count=count or 0)
    client.send(1, "basic.consume", queue=queue, consumer_tag="look")
    client.expect(1, "basic.consume-ok")
    mails = [receive_mail(client) for _ in range(wanted)]
    client.send(1, "basic.cancel", consumer_tag="look")
    client.expect(1, "basic.cancel-ok")
    return mails


def look_once(broker: BrokerProcess, queue: str) -> list[Mail]:
    """On a connection of its own: all is ready again afterwards, and counts as delivered."""
    with client_of(broker) as client:
        mails = look(client, queue)
        if mails:  # told before the connection ends, so that they are back when this returns
            requeue_all(client, queue, len(mails))
        client.close()
    return mails


def requeue_all(client: RawClient, queue: str, count: int) -> None:
    """What the channel holds, and wait until so many are ready."""
    client.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
    eventually(lambda: ready(client, queue) == count)


def look_until_quiet(broker: BrokerProcess, queue: str) -> list[Mail]:
    """What a consumer gets, where the number of messages that are ready may promise more."""
    mails: list[Mail] = []
    with client_of(broker) as client:
        client.call(1, "basic.consume", queue=queue)
        quiet_looks = 0
        while quiet_looks < QUIET_LOOKS:
            came = len(mails)
            is_empty = _receive_and_count(client, queue, mails) == 0
            quiet_looks = quiet_looks + (5 if is_empty else 1) if len(mails) == came else 0
            time.sleep(0.05)
    return mails


def _receive_and_count(client: RawClient, queue: str, mails: list[Mail]) -> int:
    """How many are still ready, when all that came before the answer is in `mails`."""
    client.send(1, "queue.declare", queue=queue, passive=True)
    while not (frame := client.receive(ANSWER_WITHIN_S)).payload.startswith(DECLARE_OK):
        client.put_back(frame)
        mails.append(receive_mail(client))
    return int(decode_method(frame.payload).message_count)


def bodies(mails: Sequence[Mail]) -> list[bytes]:
    return [mail.body for mail in mails]


def flags(mails: Sequence[Mail]) -> list[bool]:
    return [mail.redelivered for mail in mails]


def acknowledge(client: RawClient, mail: Mail, multiple: bool = False) -> None:
    client.send(1, "basic.ack", delivery_tag=mail.tag, multiple=multiple)


def numbered(count: int, size: int = 100, start: int = 0) -> list[bytes]:
    """Bodies that differ and sort: no two alike in any piece of sixteen bytes."""
    return [(b"%08d-" % n * (size // 9 + 1))[:size] for n in range(start, start + count)]


def more_than_a_journal(start: int = 0) -> list[bytes]:
    """So many small ones that the first go on to the queue's own segments."""
    return numbered(5000, size=4000, start=start)


def mixed(count: int) -> list[bytes]:
    """Of many sizes; the empty ones are the only ones alike."""
    sizes = [SIZES[n * 7 % len(SIZES)] for n in range(count)]
    return [(b"%08d." % n * (size // 9 + 1))[:size] for n, size in enumerate(sizes)]


__all__ = [
    "PERSISTENT_BLOCK", "Confirms", "Mail", "acknowledge", "bodies", "client_of", "content_frames",
    "declare", "declare_in", "flags", "look", "look_once", "look_until_quiet", "mixed",
    "more_than_a_journal", "numbered", "publish_frames", "ready", "receive_mail", "requeue_all",
    "send",
]  # fmt: skip
