"""Programs as people write them with aio-pika, run unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.patterns import RPC, Master

from broker_process import Address
from live_broker import Names

WITHIN_S = 60


def url(broker: Address) -> str:
    return f"amqp://guest:guest@{broker.host}:{broker.port}/"


@asynccontextmanager
async def opened(broker: Address) -> AsyncIterator[AbstractChannel]:
    """A channel with confirms, on a connection that reconnects, as `connect_robust` gives."""
    connection = await aio_pika.connect_robust(url(broker), timeout=WITHIN_S)
    async with connection, asyncio.timeout(WITHIN_S):
        yield await connection.channel(on_return_raises=True)


async def test_work_is_shared_by_an_iterator(broker: Address, names: Names) -> None:
    """`async with message.process()` acknowledges; an exception inside requeues."""
    async with opened(broker) as channel:
        await channel.set_qos(prefetch_count=2)
        queue = await channel.declare_queue(names("tasks"), durable=True)
        for number in range(6):
            body = aio_pika.Message(b"%d" % number, delivery_mode=2)
            await channel.default_exchange.publish(body, queue.name)
        seen = []
        async with queue.iterator() as messages:
            async for message in messages:
                seen.append((message.body, message.redelivered))
                try:
                    async with message.process(requeue=True):
                        assert message.body != b"3" or message.redelivered
                except AssertionError:
                    continue
                if len(seen) == 7:
                    break
        assert sorted(seen) == sorted([*[(b"%d" % n, False) for n in range(6)], (b"3", True)])


async def test_publish_and_subscribe(broker: Address, names: Names) -> None:
    async with opened(broker) as channel:
        exchange = await channel.declare_exchange(names("news"), aio_pika.ExchangeType.FANOUT)
        queues = [await channel.declare_queue(exclusive=True) for _ in range(3)]
        for queue in queues:
            await queue.bind(exchange)
        await exchange.publish(aio_pika.Message(b"extra"), "")
        for queue in queues:
            message = await queue.get(timeout=WITHIN_S)
            assert message is not None
            assert message.body == b"extra"
            await message.ack()


async def test_topics_and_headers(broker: Address, names: Names) -> None:
    async with opened(broker) as channel:
        topic = await channel.declare_exchange(names("topic"), aio_pika.ExchangeType.TOPIC)
        headers = await channel.declare_exchange(names("headers"), aio_pika.ExchangeType.HEADERS)
        queue = await channel.declare_queue(names("queue"))
        await headers.bind(topic, "orders.#")
        await queue.bind(headers, "", arguments={"x-match": "all", "country": "fr"})
        for country in ("fr", "de"):
            message = aio_pika.Message(country.encode(), headers={"country": country})
            await topic.publish(message, "orders.new", mandatory=False)
        received = await queue.get(no_ack=True)
        assert received is not None
        assert received.body == b"fr"
        assert await queue.get(no_ack=True, fail=False) is None


async def test_remote_procedure_calls(broker: Address, names: Names) -> None:
    """aio-pika's own RPC pattern, with an answer and with an error that travels back."""

    async def divide(*, a: int, b: int) -> float:
        return a / b

    async with opened(broker) as channel:
        rpc = await RPC.create(channel)
        method = names("divide")
        await rpc.register(method, divide, auto_delete=True)
        assert await rpc.call(method, kwargs={"a": 6, "b": 4}) == 1.5
        with pytest.raises(ZeroDivisionError):
            await rpc.call(method, kwargs={"a": 1, "b": 0})
        await rpc.close()


async def test_master_and_worker(broker: Address, names: Names) -> None:
    done: list[int] = []
    finished = asyncio.Event()

    async def worker(*, task: int) -> None:
        done.append(task)
        if len(done) == 10:
            finished.set()

    async with opened(broker) as channel:
        master, queue = Master(channel), names("worker")
        await master.create_worker(queue, worker, auto_delete=True)
        for task in range(10):
            await master.create_task(queue, kwargs={"task": task})
        await finished.wait()
    assert sorted(done) == list(range(10))


async def test_confirms_and_returns(broker: Address, names: Names) -> None:
    """Publishing returns what the broker confirmed; unroutable raises."""
    async with opened(broker) as channel:
        queue = await channel.declare_queue(names("queue"))
        confirmations = await asyncio.gather(
            *(
                channel.default_exchange.publish(aio_pika.Message(b"%d" % number), queue.name)
                for number in range(100)
            )
        )
        assert len(confirmations) == 100
        with pytest.raises(aio_pika.exceptions.DeliveryError):
            await channel.default_exchange.publish(aio_pika.Message(b""), names("nowhere"))
        assert (await queue.purge()).message_count == 100


async def test_transactions(broker: Address, names: Names) -> None:
    connection = await aio_pika.connect(url(broker))
    async with connection, asyncio.timeout(WITHIN_S):
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(names("queue"))
        async with channel.transaction():
            await channel.default_exchange.publish(aio_pika.Message(b"kept"), queue.name)
        transaction = channel.transaction()
        await transaction.select()
        await channel.default_exchange.publish(aio_pika.Message(b"dropped"), queue.name)
        await transaction.rollback()
        message = await queue.get(no_ack=True)
        assert message is not None
        assert message.body == b"kept"
        assert await queue.get(no_ack=True, fail=False) is None


async def test_a_cancelled_consumer_leaves_messages_alone(broker: Address, names: Names) -> None:
    async with opened(broker) as channel:
        queue = await channel.declare_queue(names("queue"))
        received: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        tag = await queue.consume(received.put, no_ack=True)
        await channel.default_exchange.publish(aio_pika.Message(b"first"), queue.name)
        assert (await received.get()).body == b"first"
        await queue.cancel(tag)
        await channel.default_exchange.publish(aio_pika.Message(b"second"), queue.name)
        message = await queue.get(no_ack=True)
        assert message is not None
        assert message.body == b"second"
        assert received.empty()


async def test_a_robust_connection_comes_back(broker: Address, names: Names) -> None:
    """The transport breaks; the consumer is restored and gets what is published afterwards."""
    connection = await aio_pika.connect_robust(
        f"{url(broker)}?reconnect_interval=0.1", timeout=WITHIN_S
    )
    async with connection, asyncio.timeout(WITHIN_S):
        channel = await connection.channel()
        queue = await channel.declare_queue(names("robust"))
        received: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        await queue.consume(received.put, no_ack=True)
        restored = asyncio.Event()
        connection.reconnect_callbacks.add(lambda *_: restored.set())
        assert connection.transport is not None
        await connection.transport.connection.close(OSError("cable cut"))
        await restored.wait()
        await channel.default_exchange.publish(aio_pika.Message(b"after"), queue.name)
        assert (await received.get()).body == b"after"
