"""EXTERNAL: a client's certificate as its login, by RabbitMQ's rules."""

from __future__ import annotations

import asyncio

from warren.config.settings import Config
from warren.protocol.sasl import External
from warren.server.tls.peer import certificate_of, login_name


def external_login(transport: asyncio.BaseTransport, config: Config) -> External:
    """The mechanism as this client may use it: as one user, or not at all."""
    if not config.ssl_options.asks_for_certificates:
        return External("", "TLS configuration is unsafe: ssl_options.verify is not verify_peer")
    certificate = certificate_of(transport)
    if not certificate:
        return External("", "connection peer presented no TLS (x.509) certificate")
    source = config.cert_login_from
    name = login_name(certificate, source, config.cert_login_san_type, config.cert_login_san_index)
    if not name:
        return External("", f"no name found: the certificate has no {source}")
    return External(name)
