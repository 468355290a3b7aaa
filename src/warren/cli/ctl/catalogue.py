"""All verbs there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warren.cli.ctl import (
    access,
    assistance,
    cluster_status,
    clustering,
    connections,
    definitions,
    diagnosis,
    encoding,
    event_stream,
    feature_flags,
    health,
    instead,
    logs,
    mirrors,
    node_status,
    nodes,
    object_listing,
    observer,
    parameters,
    plugins,
    policies,
    queue_listing,
    queues,
    quorum_members,
    rebalancing,
    settings,
    stream_status,
    super_streams,
    synchronising,
    users,
    vhosts,
)
from warren.cli.ctl.verbs import Verb

_FAMILIES: Final = (
    access, assistance, cluster_status, clustering, connections, definitions, diagnosis,
    encoding, event_stream, feature_flags, health, instead, logs, mirrors, node_status, nodes,
    object_listing, observer, parameters, plugins, policies, queue_listing, queues, quorum_members,
    rebalancing, settings, stream_status, super_streams, synchronising, users, vhosts,
)  # fmt: skip

VERBS: Final[Mapping[str, Verb]] = {
    verb.name: verb for family in _FAMILIES for verb in family.VERBS
}
