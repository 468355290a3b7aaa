"""An ingest of a mirrored stream whose nodes are killed, the one that leads it above all.

Three nodes have a copy each. Whoever publishes is connected to any of them and goes to another
when that one is gone; so does the job. What was confirmed by whichever master is in the lake, once.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Final

import pika

from cluster.mirrored import EVERYWHERE, MirroredCluster
from cluster.nodes import NodeProcess
from pipeline_chaos.chaos import Chaos
from pipeline_chaos.faults import QUEUE
from pipeline_chaos.job_process import wait_until
from pipeline_chaos.publishing import Publisher

CONFIRMS_AFTER_A_KILL: Final = 20


class MirroredChaos(Chaos):
    faults = ("master", "workers", "mirror", "driver", "master", "machine", "stop", "upkeep")

    def __init__(self, directory: Path, seed: int, *, on_store: bool = False) -> None:
        nodes = directory / "nodes"
        nodes.mkdir()
        self.cluster = MirroredCluster(nodes)
        super().__init__(directory, seed, on_store=on_store)
        self._turns = count()
        self.publisher = Publisher(self._somewhere, QUEUE)

    def urls(self) -> str:
        return ",".join(f"http://127.0.0.1:{node.http_port}" for node in self.cluster.nodes)

    def start_brokers(self) -> None:
        self.cluster.start()
        self.cluster.mirror("numbers", f"^{QUEUE}$", EVERYWHERE)

    def stop_brokers(self) -> None:
        self.cluster.stop()

    def _somewhere(self) -> pika.ConnectionParameters:
        """At a node that lives, another one each time."""
        living = self.cluster.living
        node = living[next(self._turns) % len(living)]
        return pika.ConnectionParameters(*node.address, heartbeat=0)

    def _master(self) -> None:
        self._kill_and_restart(self._home())

    def _mirror(self) -> None:
        home = self._home()
        others = [node for node in self.cluster.nodes if node is not home]
        self._kill_and_restart(self._random.choice(others))

    def _home(self) -> NodeProcess:
        wait_until("the stream is led", lambda: self.cluster.master_node_of(QUEUE) is not None)
        home = self.cluster.master_node_of(QUEUE)
        assert home is not None, "nothing has happened since"
        return home

    def _kill_and_restart(self, node: NodeProcess) -> None:
        """Between the two the others go on; after it all have everything, for the next one."""
        node.kill()
        confirmed = len(self.publisher.confirmed) + CONFIRMS_AFTER_A_KILL
        wait_until("the others confirm", lambda: len(self.publisher.confirmed) >= confirmed)
        node.start()
        names = {each.name for each in self.cluster.nodes}
        wait_until("all copies are in sync", lambda: self.cluster.in_sync(QUEUE) == names)
