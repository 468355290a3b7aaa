"""Programs as people write them with pika, run unchanged."""

from __future__ import annotations

import socket
import threading
import time
import uuid
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import WAIT_S, eventually
from broker_process import Address
from live_broker import Connect, Names, connection_parameters

TASKS = 20


def test_a_work_queue_shares_tasks_fairly(connect: Connect, names: Names) -> None:
    """Two workers with prefetch 1; the quick one does what the slow one cannot."""
    queue = names("tasks")
    producer = connect().channel()
    producer.queue_declare(queue, durable=True)
    done: dict[str, list[bytes]] = {"slow": [], "quick": []}
    workers = [
        threading.Thread(target=work, args=(connect(), queue, done, name, pause))
        for name, pause in (("slow", 0.05), ("quick", 0.0))
    ]
    for worker in workers:
        worker.start()
    eventually(lambda: producer.queue_declare(queue, passive=True).method.consumer_count == 2)
    for number in range(TASKS):
        producer.basic_publish(
            "",
            queue,
            b"%d" % number,
            pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent),
        )
    for worker in workers:
        worker.join()
    assert sorted(done["slow"] + done["quick"], key=int) == [b"%d" % n for n in range(TASKS)]
    assert len(done["quick"]) > len(done["slow"]) >= 1
    assert producer.queue_delete(queue, if_empty=True).method.message_count == 0


def work(
    connection: Any, queue: str, done: dict[str, list[bytes]], name: str, pause: float
) -> None:
    """Takes tasks one by one until all are done."""
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)
    deadline = time.monotonic() + WAIT_S
    for method, _, body in channel.consume(queue, inactivity_timeout=0.1):
        if sum(map(len, done.values())) == TASKS or time.monotonic() > deadline:
            break
        if method is None:
            continue
        time.sleep(pause)
        done[name].append(body)
        channel.basic_ack(method.delivery_tag)
    channel.cancel()


def test_publish_and_subscribe(connect: Connect, names: Names) -> None:
    """A fanout reaches every subscriber's own queue."""
    exchange = names("news")
    publisher = connect().channel()
    publisher.exchange_declare(exchange, "fanout")
    subscribers = [connect().channel() for _ in range(3)]
    queues = []
    for subscriber in subscribers:
        queue = subscriber.queue_declare("", exclusive=True).method.queue
        subscriber.queue_bind(queue, exchange)
        queues.append(queue)
    publisher.basic_publish(exchange, "", b"extra! extra!")
    for subscriber, queue in zip(subscribers, queues, strict=True):
        assert next_body(subscriber, queue) == b"extra! extra!"


def test_topics(connect: Connect, names: Names) -> None:
    """Logs by facility and severity."""
    exchange, channel = names("logs"), connect().channel()
    channel.exchange_declare(exchange, "topic")
    kernel, critical = (channel.queue_declare("", exclusive=True).method.queue for _ in range(2))
    channel.queue_bind(kernel, exchange, "kern.*")
    channel.queue_bind(critical, exchange, "*.critical")
    for key in ("kern.info", "kern.critical", "cron.critical", "cron.info"):
        channel.basic_publish(exchange, key, key.encode())
    assert [next_body(channel, kernel) for _ in range(2)] == [b"kern.info", b"kern.critical"]
    assert [next_body(channel, critical) for _ in range(2)] == [b"kern.critical", b"cron.critical"]


def next_body(channel: BlockingChannel, queue: str) -> bytes:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            return bytes(body)
    raise AssertionError("nothing came")


class Calculator(threading.Thread):
    """Answers each question with its square, through a queue of its own."""

    def __init__(self, connection: Any, queue: str) -> None:
        super().__init__()
        self._connection = connection
        self._channel = connection.channel()
        self._channel.queue_declare(queue)
        self._channel.basic_consume(queue, self._answer)

    def _answer(
        self, channel: BlockingChannel, method: Any, properties: pika.BasicProperties, body: bytes
    ) -> None:
        channel.basic_publish(
            "",
            str(properties.reply_to),
            b"%d" % (int(body) ** 2),
            pika.BasicProperties(correlation_id=properties.correlation_id),
        )
        channel.basic_ack(method.delivery_tag)

    def run(self) -> None:
        self._channel.start_consuming()

    def stop(self) -> None:
        self._connection.add_callback_threadsafe(self._channel.stop_consuming)
        self.join()


@pytest.mark.parametrize("reply_to", ["amq.rabbitmq.reply-to", ""])
def test_remote_procedure_calls(connect: Connect, names: Names, reply_to: str) -> None:
    """With direct reply-to and with a reply queue; answers carry the caller's correlation id."""
    queue, channel = names("squares"), connect().channel()
    server = Calculator(connect(), queue)
    server.start()
    replies = reply_to or channel.queue_declare("", exclusive=True).method.queue
    answers: dict[str, bytes] = {}
    channel.basic_consume(
        replies,
        lambda _c, _m, p, body: answers.update({str(p.correlation_id): body}),
        auto_ack=True,
    )
    asked = {}
    for number in range(5):
        correlation_id = str(uuid.uuid4())
        asked[correlation_id] = b"%d" % number**2
        properties = pika.BasicProperties(reply_to=replies, correlation_id=correlation_id)
        channel.basic_publish("", queue, b"%d" % number, properties)
    deadline = time.monotonic() + WAIT_S
    while len(answers) < len(asked) and time.monotonic() < deadline:
        channel.connection.process_data_events(time_limit=0.1)
    server.stop()
    assert answers == asked


def test_confirmed_publishing(connect: Connect, names: Names) -> None:
    """basic_publish returns when confirmed, and raises when unroutable or refused."""
    queue, channel = names("confirmed"), connect().channel()
    channel.queue_declare(queue, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    for body in (b"one", b"two"):
        channel.basic_publish("", queue, body, mandatory=True)
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", queue, b"three")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", names("nowhere"), b"lost", mandatory=True)


def test_retries_through_a_waiting_room(connect: Connect, names: Names) -> None:
    """Rejected tasks wait in a TTL queue and come back; after two rounds they are given up."""
    tasks, waiting, channel = names("tasks"), names("waiting"), connect().channel()
    to_default = {"x-dead-letter-exchange": ""}
    channel.queue_declare(tasks, arguments={**to_default, "x-dead-letter-routing-key": waiting})
    channel.queue_declare(
        waiting, arguments={**to_default, "x-dead-letter-routing-key": tasks, "x-message-ttl": 30}
    )
    channel.basic_publish("", tasks, b"fragile")
    attempts: list[list[tuple[str, str, int]]] = []
    for method, properties, _ in channel.consume(tasks, inactivity_timeout=WAIT_S):
        assert method is not None, f"the task did not come back after {attempts}"
        deaths = (properties.headers or {}).get("x-death", [])
        attempts.append([(d["queue"], d["reason"], d["count"]) for d in deaths])
        if len(attempts) == 3:
            channel.basic_ack(method.delivery_tag)
            break
        channel.basic_nack(method.delivery_tag, requeue=False)
    channel.cancel()
    assert attempts == [
        [],
        [(waiting, "expired", 1), (tasks, "rejected", 1)],
        [(waiting, "expired", 2), (tasks, "rejected", 2)],
    ]


def test_a_deleted_queue_cancels_its_consumers(connect: Connect, names: Names) -> None:
    """The consumer's callback hears of it and consuming ends by itself."""
    queue, channel = names("doomed"), connect().channel()
    channel.queue_declare(queue)
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue, lambda *_: None)
    connect().channel().queue_delete(queue)
    channel.start_consuming()
    assert cancelled == [tag]


def test_a_program_reconnects_and_goes_on(broker: Address, connect: Connect, names: Names) -> None:
    """A connection lost with a task in hand: the task comes again, marked as redelivered."""
    queue, channel = names("tasks"), connect().channel()
    channel.queue_declare(queue)
    channel.basic_publish("", queue, b"unfinished")
    first = pika.BlockingConnection(connection_parameters(broker))
    method, _, _ = next(first.channel().consume(queue, inactivity_timeout=WAIT_S))
    assert method.redelivered is False
    first._impl._transport._sock.shutdown(socket.SHUT_RDWR)  # as if the cable was cut
    second = connect().channel()
    method, _, body = next(second.consume(queue, inactivity_timeout=WAIT_S))
    assert (method.redelivered, body) == (True, b"unfinished")
    second.basic_ack(method.delivery_tag)


def test_select_connection_runs_its_callbacks(broker: Address, names: Names) -> None:
    """pika's asynchronous adapter: open, declare, publish, consume, close, by callbacks alone."""
    queue, received = names("asynchronous"), []

    def on_message(channel: Any, method: Any, _: Any, body: bytes) -> None:
        received.append(body)
        channel.basic_ack(method.delivery_tag)
        connection.close()

    def on_declared(channel: Any) -> None:
        channel.basic_consume(queue, on_message)
        channel.basic_publish("", queue, b"by callback")

    def on_channel(channel: Any) -> None:
        channel.queue_declare(queue, callback=lambda _: on_declared(channel))

    connection = pika.SelectConnection(
        connection_parameters(broker),
        on_open_callback=lambda opened: opened.channel(on_open_callback=on_channel),
        on_close_callback=lambda closed, _: closed.ioloop.stop(),
    )
    connection.ioloop.start()
    assert received == [b"by callback"]
