"""A network that can be cut: a namespace per node, a bridge between them, all of our own.

Everything is in a namespace that the tool entered before it started, so it disturbs nobody, and it
ends with the tool. A node is cut off by taking its end of the cable down: packets vanish, nobody
is told. A one-way cut gives it a wrong hardware address for one peer: what it sends there is lost,
what that peer sends still arrives. A part of the nodes is split off by plugging their cables into
another hub, where nothing else is: they hear each other, and nobody else hears them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Final

HUB: Final = "10.77.0.254"
BRIDGE: Final = "hub"
ISLAND: Final = "island"
NOBODY: Final = "02:00:00:00:00:99"
_INSIDE: Final = "WARREN_CHAOS_NETWORK"
_APART: Final = ("unshare", "--net", "--mount")


def enter_own_network(module: str) -> str | None:
    """Run this module again with network and mounts of its own; returns there, or why not."""
    if os.environ.get(_INSIDE):
        return None
    for program in ("unshare", "ip", "mount"):
        if shutil.which(program) is None:
            return f"there is no program '{program}'"
    probe = subprocess.run(
        [*_APART, "sh", "-c", f"ip netns add {_probe_name()} && ip netns del {_probe_name()}"],
        check=False,
        capture_output=True,
        text=True,
    )
    if probe.returncode:
        return probe.stderr.strip()
    os.environ[_INSIDE] = str(os.getpid())
    return os.execvp(_APART[0], [*_APART, sys.executable, "-m", module, *sys.argv[1:]])


def _probe_name() -> str:
    return f"warren-chaos-{os.getpid()}"


class Network:
    def __init__(self, nodes: int) -> None:
        self._namespaces = [f"{_probe_name()}-{i}" for i in range(nodes)]

    def address(self, node: int) -> str:
        return f"10.77.0.{node + 1}"

    def inside(self, node: int) -> list[str]:
        """What a command is put behind to run it there."""
        return ["ip", "netns", "exec", self._namespaces[node]]

    def set_up(self) -> None:
        _ip("link", "set", "lo", "up")
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{HUB}/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        _ip("link", "add", ISLAND, "type", "bridge")
        _ip("link", "set", ISLAND, "up")
        for node, namespace in enumerate(self._namespaces):
            _ip("netns", "add", namespace)
            _ip("link", "add", f"cable{node}", "type", "veth", "peer", "name", "eth0",
                "netns", namespace)  # fmt: skip
            _ip("link", "set", f"cable{node}", "master", BRIDGE, "up")
            _ip("-n", namespace, "link", "set", "lo", "up")
            _ip("-n", namespace, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
            _ip("-n", namespace, "link", "set", "eth0", "up")

    def tear_down(self) -> None:
        for namespace in self._namespaces:
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)

    # Cuts.

    def cut(self, node: int) -> None:
        """From everybody: the other nodes, etcd and its clients."""
        _ip("link", "set", f"cable{node}", "down")

    def mend(self, node: int) -> None:
        _ip("link", "set", f"cable{node}", "up")

    def split(self, nodes: list[int]) -> None:
        """They and the rest, etcd and clients with it, do not hear each other."""
        for node in nodes:
            _ip("link", "set", f"cable{node}", "master", ISLAND)

    def join(self, nodes: list[int]) -> None:
        for node in nodes:
            _ip("link", "set", f"cable{node}", "master", BRIDGE)

    def deafen(self, sender: int, address: str) -> None:
        """What the node sends to that address is lost from now on."""
        _ip("-n", self._namespaces[sender], "neigh", "replace", address, "lladdr", NOBODY,
            "dev", "eth0", "nud", "permanent")  # fmt: skip

    def undeafen(self, sender: int, address: str) -> None:
        _ip("-n", self._namespaces[sender], "neigh", "del", address, "dev", "eth0")


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
