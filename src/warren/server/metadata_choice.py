"""Where a node keeps its metadata: in a file of its own, or in the etcd of its cluster."""

from __future__ import annotations

from functools import partial

from warren.config.settings import Config
from warren.metadata.boot_wait import BootWait
from warren.metadata.etcd_address import DEFAULT_NAMESPACE, is_etcd_address, parse_etcd_address
from warren.metadata.sqlite import SqliteStore
from warren.metadata.store import MetadataStore
from warren.metadata.watchers import OnFault
from warren.model.logs import EventLog
from warren.server.data_directory import METADATA_FILE

_log = EventLog("node")


def metadata_store(config: Config, on_fault: OnFault) -> MetadataStore:
    """`on_fault` has to end the node: it is not what its metadata says any more."""
    if not is_etcd_address(config.metadata):
        return SqliteStore(config.data_dir / METADATA_FILE, on_fault)
    # Imported here: a node alone needs nothing that talks to etcd.
    from warren.server.cluster_store import ClusterStore

    address = parse_etcd_address(config.metadata)
    patience_s = config.metadata_timeout_ms / 1000
    namespace = config.cluster_name or DEFAULT_NAMESPACE
    store = ClusterStore(address, namespace, patience_s, config.name, on_fault)
    store.boot_wait = BootWait(
        config.boot_wait_ms / 1000, config.boot_wait_attempts, partial(_tell_of_waiting, config)
    )
    return store


def _tell_of_waiting(config: Config, attempts_left: int) -> None:
    _log.warning(
        "waiting for the metadata store",
        metadata=parse_etcd_address(config.metadata),
        ms=config.boot_wait_ms,
        retries_left=attempts_left,
    )
