"""Two thousand connections come, work, stall and go, and leave nothing behind."""

from __future__ import annotations

import asyncio
import random
import resource
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from acceptance.actions import eventually
from broker_process import Address, BrokerProcess
from chaos.storm_client import StormClient

CONNECTIONS = 2000
AT_ONCE = 400
DONE_WITHIN_S = 280
MIB = 2**20
# What the broker may open meanwhile for its own ends.
OTHER_FILES_MAX = 8
LEFT_BEHIND_BYTES_MAX = 24 * MIB
IDLE_CONNECTIONS = 1000
IDLE_CONNECTION_BYTES_MAX = 64 * 1024


async def one_life(address: Address, chance: random.Random) -> None:
    """A client that is ordinary, half-open, slow or only knocks, and goes in some way."""
    client = await StormClient.connect(address)
    kind = chance.choice(["worker", "worker", "worker", "knock", "half-open", "deaf"])
    if kind == "half-open":
        client.writer.write(b"AMQP\x00\x00")
    elif kind != "knock":
        await client.open()
        queue = f"storm-{uuid.UUID(int=chance.getrandbits(128)).hex}"
        if kind == "worker":
            await client.work(queue, chance.randint(1, 20))
        else:
            client.stop_reading_a_flood(queue)
    await asyncio.sleep(chance.random() * 0.5)
    if kind in {"knock", "half-open"}:
        client.writer.transport.abort()
    else:
        await client.leave(chance)


async def storm(address: Address, connections: int, chance: random.Random) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def visit(seed: int) -> None:
        async with room:
            await one_life(address, random.Random(seed))

    async with asyncio.timeout(DONE_WITHIN_S):
        await asyncio.gather(*(visit(chance.getrandbits(64)) for _ in range(connections)))


def descriptors(process: BrokerProcess) -> int:
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))


def allow_sockets() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def idle(address: Address, connections: int, at_the_height: Callable[[], None]) -> None:
    """Open all, one after the other, look, and drop them all at once."""
    clients = []
    for _ in range(connections):
        client = await StormClient.connect(address)
        await client.open()
        clients.append(client)
    await asyncio.sleep(0.5)
    at_the_height()
    for client in clients:
        client.writer.transport.abort()


def test_idle_connections_are_cheap(broker: Address, own_broker: BrokerProcess | None) -> None:
    """A thousand of them with a channel each, then all gone at once."""
    allow_sockets()
    before = own_broker.resident_bytes() if own_broker else 0

    def weigh() -> None:
        if own_broker:
            each = (own_broker.resident_bytes() - before) // IDLE_CONNECTIONS
            assert each < IDLE_CONNECTION_BYTES_MAX, f"a connection takes {each} bytes"

    asyncio.run(idle(broker, IDLE_CONNECTIONS, weigh))


@pytest.mark.timeout(600)
def test_a_storm_leaves_nothing_behind(
    broker: Address, own_broker: BrokerProcess | None, chance: random.Random
) -> None:
    """Memory and descriptors return to where they were; the bystander is not disturbed."""
    allow_sockets()
    asyncio.run(storm(broker, AT_ONCE, chance))
    if own_broker is None:
        asyncio.run(storm(broker, CONNECTIONS, chance))
        return
    time.sleep(0.5)
    memory, files = own_broker.resident_bytes(), descriptors(own_broker)
    asyncio.run(storm(broker, CONNECTIONS, chance))
    eventually(lambda: descriptors(own_broker) <= files + OTHER_FILES_MAX)
    growth = own_broker.resident_bytes() - memory
    assert growth < LEFT_BEHIND_BYTES_MAX, f"the broker kept {growth / MIB:.1f} MiB"
