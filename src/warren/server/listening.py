"""Where a node can be reached, and for what: one list for the API and for the other nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from warren.cluster.node_states import Listener

if TYPE_CHECKING:
    from warren.config.values import Endpoint
    from warren.server.cluster import Cluster


class ListeningNode(Protocol):
    cluster: Cluster | None

    @property
    def metrics_endpoint(self) -> Endpoint | None: ...

    @property
    def http_endpoints(self) -> Mapping[str, Endpoint]: ...

    @property
    def amqp_endpoints(self) -> Sequence[Endpoint]: ...

    @property
    def amqps_endpoints(self) -> Sequence[Endpoint]: ...

    @property
    def suspended_endpoints(self) -> tuple[Sequence[Endpoint], Sequence[Endpoint]]: ...


def listeners_of(node: ListeningNode) -> list[Listener]:
    """A drained node has none for AMQP."""
    found = [_listener("amqp", endpoint) for endpoint in node.amqp_endpoints]
    found += (_listener("amqp/ssl", endpoint) for endpoint in node.amqps_endpoints)
    if node.cluster is not None:
        found.append(_listener("clustering", node.cluster.links.endpoint))
    found += (_listener(scheme, endpoint) for scheme, endpoint in node.http_endpoints.items())
    if node.metrics_endpoint is not None:
        found.append(_listener("http/prometheus", node.metrics_endpoint))
    return found


def suspended_listeners_of(node: ListeningNode) -> list[Listener]:
    """Listeners for AMQP that accept nobody at the moment: in maintenance, or suspended."""
    plain, tls = node.suspended_endpoints
    found = [_listener("amqp", endpoint) for endpoint in plain]
    return found + [_listener("amqp/ssl", endpoint) for endpoint in tls]


def _listener(protocol: str, endpoint: Endpoint) -> Listener:
    return Listener(protocol, endpoint.host or "::", endpoint.port)
