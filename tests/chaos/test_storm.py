"""Two thousand connections come, work, stall and go, and leave nothing behind."""

from __future__ import annotations

import asyncio
import random
import resource
import time
import uuid
from pathlib import Path

from acceptance.actions import eventually
from broker_process import Address, BrokerProcess
from chaos.storm_client import StormClient

CONNECTIONS = 2000
AT_ONCE = 400
DONE_WITHIN_S = 40
MIB = 2**20
LEFT_BEHIND_BYTES_MAX = 24 * MIB


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
    eventually(lambda: descriptors(own_broker) <= files)
    growth = own_broker.resident_bytes() - memory
    assert growth < LEFT_BEHIND_BYTES_MAX, f"the broker kept {growth / MIB:.1f} MiB"


async def idle(address: Address, connections: int) -> None:
    """Many connections that do nothing cost the others nothing."""
    clients = []
    for _ in range(connections):
        client = await StormClient.connect(address)
        await client.open()
        clients.append(client)
    await asyncio.sleep(1)
    for client in clients:
        client.writer.transport.abort()


def test_idle_connections_are_cheap(broker: Address, own_broker: BrokerProcess | None) -> None:
    """A thousand of them, opened one after the other, then all gone at once."""
    allow_sockets()
    before = own_broker.resident_bytes() if own_broker else 0
    asyncio.run(idle(broker, 1000))
    if own_broker:
        growth = own_broker.resident_bytes() - before
        assert growth < 64 * MIB, f"a thousand connections took {growth / MIB:.1f} MiB"
