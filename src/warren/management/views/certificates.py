"""Certificates that expire before long, by the listeners they are shown at."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from warren.config.tls import TlsOptions
from warren.config.values import Endpoint
from warren.management.json_types import JsonObject
from warren.server.tls.certificates import expiries_of
from warren.server.tls.sides import http_options

if TYPE_CHECKING:
    from warren.server.node import Node

DAYS_OF_UNIT: Final = {"days": 1, "weeks": 7, "months": 30, "years": 365}
DAYS_MAX: Final = 100 * 365


def tls_listeners(node: Node) -> list[tuple[str, Endpoint, TlsOptions]]:
    """Listeners that speak TLS: the protocol, where, and with which files."""
    over_https, _ = http_options(node.config)
    listeners = [
        ("amqp/ssl", endpoint, node.config.ssl_options) for endpoint in node.amqps_endpoints
    ]
    if "https" in node.http_endpoints:
        listeners.append(("https", node.http_endpoints["https"], over_https))
    if node.cluster is not None and node.config.link_tls.is_given:
        listeners.append(("clustering", node.cluster.links.endpoint, node.config.link_tls))
    return listeners


def expiring_certificates(node: Node, until: datetime) -> list[JsonObject]:
    """Reads the files, so not for the event loop."""
    shown = [_show(node, *listener, until) for listener in tls_listeners(node)]
    return [one for one in shown if one["certfile_expires_on"] or one["cacertfile_expires_on"]]


def _show(
    node: Node, protocol: str, endpoint: Endpoint, options: TlsOptions, until: datetime
) -> JsonObject:
    return {
        "cacertfile": options.cacertfile,
        "cacertfile_expires_on": _expiring(options.cacertfile, until),
        "certfile": options.certfile,
        "certfile_expires_on": _expiring(options.certfile, until),
        "interface": endpoint.host or "[::]",
        "node": node.config.name,
        "port": endpoint.port,
        "protocol": protocol,
    }


def _expiring(path: str, until: datetime) -> list[str]:
    """As RabbitMQ writes times here: no zero before the hour."""
    return [
        f"{moment:%Y-%m-%d} {moment.hour}:{moment:%M:%S}"
        for moment in expiries_of(path)
        if moment <= until
    ]
