"""What is done to the cluster: each fault is begun, lasts a while, and is healed."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cluster_chaos.comparing import has_session
from cluster_chaos.network import HUB
from cluster_chaos.world import ChaosNode, World

PAUSE_S_MAX: Final = 20.0
CUT_S_MAX: Final = 25.0
DOWN_S_MAX: Final = 12.0
WELL_S_MAX: Final = 240.0


@contextmanager
def kill(world: World, node: ChaosNode) -> Iterator[None]:
    node.end(signal.SIGKILL)
    yield
    node.start()


@contextmanager
def stop(world: World, node: ChaosNode) -> Iterator[None]:
    node.end(signal.SIGTERM)
    yield
    node.start()


@contextmanager
def pause(world: World, node: ChaosNode) -> Iterator[None]:
    node.send(signal.SIGSTOP)
    yield
    node.send(signal.SIGCONT)


@contextmanager
def cut(world: World, node: ChaosNode) -> Iterator[None]:
    """From everybody."""
    world.network.cut(node.number)
    yield
    world.network.mend(node.number)


@contextmanager
def cut_from_etcd(world: World, node: ChaosNode) -> Iterator[None]:
    """Its requests are lost, and the answers could come. Clients in the hub lose it as well."""
    world.network.deafen(node.number, HUB)
    yield
    world.network.undeafen(node.number, HUB)


@contextmanager
def cut_from_node(world: World, node: ChaosNode) -> Iterator[None]:
    """One way: what it sends to another node is lost, what that sends arrives."""
    other = world.nodes[(node.number + 1) % len(world.nodes)]
    world.network.deafen(node.number, other.host)
    yield
    world.network.undeafen(node.number, other.host)


FAULTS: Final = {
    kill: DOWN_S_MAX,
    stop: DOWN_S_MAX,
    pause: PAUSE_S_MAX,
    cut: CUT_S_MAX,
    cut_from_etcd: CUT_S_MAX,
    cut_from_node: CUT_S_MAX,
}


def await_well(world: World, nodes: list[ChaosNode]) -> None:
    deadline = time.monotonic() + WELL_S_MAX
    while not all(has_session(world, node) for node in nodes):
        names = ", ".join(node.name for node in nodes)
        assert time.monotonic() < deadline, f"no session within {WELL_S_MAX:g} s: {names}"
        world.revive()
        time.sleep(0.2)


def hurt(world: World, chance: random.Random, seconds: float) -> Iterator[str]:
    """Hurt one or two nodes for a while, one after another or overlapping; says what it did.

    There is always one that is well: what belongs to no node ends when all are down.
    """
    deadline = time.monotonic() + seconds
    while (left_s := deadline - time.monotonic()) > 0:
        first, second, *others = chance.sample(world.nodes, len(world.nodes))
        await_well(world, others)
        fault = chance.choice([*FAULTS])
        lasts_s = min(chance.uniform(0, FAULTS[fault]) * chance.choice([0.1, 1]), left_s)
        with fault(world, first):
            said = f"{fault.__name__} {first.name} {lasts_s:.1f} s"
            if chance.random() < 0.3:
                time.sleep(chance.uniform(0, lasts_s / 2))
                other = chance.choice([*FAULTS])
                with other(world, second):
                    yield f"{said}, meanwhile {other.__name__} {second.name}"
                    time.sleep(lasts_s / 2)
            else:
                yield said
                time.sleep(lasts_s)
        time.sleep(chance.choice([0.0, chance.uniform(0, 3)]))


def restart_members(world: World, chance: random.Random) -> Iterator[str]:
    """One by one, each well before the next: etcd never loses its majority."""
    for member in chance.sample(world.members, len(world.members)):
        ending = chance.choice([signal.SIGTERM, signal.SIGKILL])
        yield f"restart {member.name} of etcd after {ending.name}"
        member.stop(ending)
        time.sleep(chance.uniform(0, 3))
        member.start()
        member.wait_ready()
        time.sleep(chance.uniform(0.5, 2))
