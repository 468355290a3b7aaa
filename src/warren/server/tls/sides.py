"""The sides of a node where TLS is spoken, made before any port is taken: a certificate that cannot
be read is found at the start, not by the first client."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from warren.server.config import Config
from warren.server.logs import EventLog
from warren.server.tls.acceptor import TlsSide
from warren.server.tls.certificates import expiry_of
from warren.server.tls.context import TlsConfigError, client_context, server_context
from warren.server.tls.options import TlsOptions

AMQP_KEY: Final = "ssl_options"
HTTP_KEY: Final = "management.ssl"
LINKS_KEY: Final = "warren.cluster_links.ssl_options"

_log = EventLog("node")


@dataclass(frozen=True, slots=True)
class TlsSides:
    """None where no TLS is spoken. Links have two ends, and a node is either."""

    amqp: TlsSide | None = None
    http: TlsSide | None = None
    links: TlsSide | None = None
    links_asking: ssl.SSLContext | None = None


def http_options(config: Config) -> tuple[TlsOptions, str]:
    """Those of AMQP will do for HTTP if it is given none of its own, as with RabbitMQ."""
    if config.management_tls.is_given:
        return config.management_tls, HTTP_KEY
    return config.ssl_options, AMQP_KEY


def tls_sides(config: Config) -> TlsSides:
    """Raises TlsConfigError."""
    amqp = http = links = asking = None
    if config.ssl_listeners:
        amqp = _side(config, config.ssl_options, AMQP_KEY, "AMQP")
    if config.management_tls.port is not None:
        http = _side(config, *http_options(config), "HTTP")
    if config.link_tls.is_given:
        links = _side(config, config.link_tls, LINKS_KEY, "links")
        asking = client_context(config.link_tls, LINKS_KEY)
    return TlsSides(amqp, http, links, asking)


def _side(config: Config, options: TlsOptions, key: str, purpose: str) -> TlsSide:
    context = server_context(options, key)
    expires_at = expiry_of(options.certfile)
    if expires_at is None:
        raise TlsConfigError(f"{key}.certfile: {options.certfile}: there is no certificate in it")
    if expires_at <= datetime.now(UTC):
        _log.warning(
            "certificate is expired: clients that look will refuse it",
            key=f"{key}.certfile", file=options.certfile, expired_at=expires_at.isoformat(),
        )  # fmt: skip
    return TlsSide(context, purpose, config.ssl_handshake_timeout_ms / 1000)
