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
    health,
    mirrors,
    node_status,
    nodes,
    object_listing,
    parameters,
    policies,
    queue_listing,
    queues,
    rebalancing,
    settings,
    users,
    vhosts,
)
from warren.cli.ctl.verbs import Verb

_FAMILIES: Final = (
    access, assistance, cluster_status, clustering, connections, definitions, health, mirrors,
    node_status, nodes, object_listing, parameters, policies, queue_listing, queues,
    rebalancing, settings, users, vhosts,
)  # fmt: skip

VERBS: Final[Mapping[str, Verb]] = {
    verb.name: verb for family in _FAMILIES for verb in family.VERBS
}
