"""Declares what a load runs on, and takes it away again."""

from __future__ import annotations

from typing import Any, cast

from pamqp.commands import Exchange, Queue

from warren.model.fields import Field, Table, long, longstr
from warren.perf.client import Client
from warren.perf.options import Options, numbered


async def declare(options: Options) -> None:
    client = Client(options)
    try:
        await client.open((options.host, options.port))
        await _declare_exchange(client, options)
        for number in range(options.queues):
            await _declare_queue(client, options, options.queue_name(number))
        await _bind(client, options)
    finally:
        await client.close()


async def delete(options: Options) -> None:
    client = Client(options)
    try:
        await client.open((options.host, options.port))
        for number in range(options.queues):
            await client.call(Queue.Delete(queue=options.queue_name(number)), Queue.DeleteOk)
        if options.exchange and options.exchange_type:
            await client.call(Exchange.Delete(exchange=options.exchange), Exchange.DeleteOk)
    finally:
        await client.close()


async def _declare_exchange(client: Client, options: Options) -> None:
    if options.exchange and options.exchange_type:
        exchange = Exchange.Declare(
            exchange=options.exchange,
            exchange_type=options.exchange_type,
            durable=options.durable,
        )
        await client.call(exchange, Exchange.DeclareOk)


async def _declare_queue(client: Client, options: Options, name: str) -> None:
    queue = Queue.Declare(
        queue=name,
        durable=options.durable,
        auto_delete=options.auto_delete,
        arguments=cast("Any", queue_arguments(options.queue_arg)),
    )
    await client.call(queue, Queue.DeclareOk)
    if options.purge:
        await client.call(Queue.Purge(queue=name), Queue.PurgeOk)


async def _bind(client: Client, options: Options) -> None:
    if not options.exchange or not (options.bind_key or options.exchange_type):
        return
    for number in range(options.binds if options.binds > 0 else options.queues):
        binding = Queue.Bind(
            queue=options.queue_name(number % options.queues),
            exchange=options.exchange,
            routing_key=numbered(options.bind_key, number),
        )
        await client.call(binding, Queue.BindOk)


def queue_arguments(assignments: list[str]) -> Table:
    """`x-max-length=10` is a number, `true` a boolean, everything else text."""

    def field(value: str) -> Field:
        if value in {"true", "false"}:
            return Field("t", value == "true")
        return long(int(value)) if value.lstrip("-").isdigit() else longstr(value)

    pairs = (assignment.partition("=") for assignment in assignments)
    return Table((name, field(value)) for name, _, value in pairs)
