"""Engines under contract: for each, what makes handles on one and the same data.

A new engine joins by a line in ENGINES and is then asked everything.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias

from etcd_process import EtcdCluster
from warren.metadata.etcd import EtcdStore
from warren.metadata.etcd_address import parse_etcd_address
from warren.metadata.sqlite import SqliteStore
from warren.metadata.store import MetadataStore

MakeStore: TypeAlias = Callable[[], MetadataStore]


@cache
def shared_etcd() -> EtcdCluster:
    """One for all tests of a run: each has a name space of its own."""
    cluster = EtcdCluster().start()
    atexit.register(cluster.stop)
    return cluster


def _etcd_store(directory: Path) -> MetadataStore:
    return EtcdStore(parse_etcd_address(shared_etcd().url), str(directory).strip("/"))


ENGINES: dict[str, Callable[[Path], MakeStore]] = {
    "sqlite": lambda directory: lambda: SqliteStore(directory / "metadata.db"),
    "etcd": lambda directory: lambda: _etcd_store(directory),
}
