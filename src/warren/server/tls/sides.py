"""The sides of a node where TLS is spoken.

Their certificates are read before any port is taken: one that cannot be read is found at the start,
not by the first client. Certificates are renewed while a node runs, so the files are looked at now
and then, and read again when they have changed. What is wrong then changes nothing, but has a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from warren.config.settings import Config
from warren.config.tls import TlsOptions
from warren.model.logs import EventLog
from warren.server.tls.acceptor import TlsSide
from warren.server.tls.certificates import expiry_of
from warren.server.tls.context import TlsConfigError, client_context, server_context

AMQP_KEY: Final = "ssl_options"
HTTP_KEY: Final = "management.ssl"
LINKS_KEY: Final = "warren.cluster_links.ssl_options"
# How often the files are looked at.
RENEWAL_CHECK_MS: Final = 30_000

_log = EventLog("node")

# When a file was changed last, and how large it is; nothing of one that is not there.
Stamp = tuple[int, int] | None


@dataclass(slots=True)
class ConfiguredSide:
    side: TlsSide
    options: TlsOptions
    key: str
    stamps: list[Stamp] = field(default_factory=list)

    def renew(self) -> bool:
        """Whether the files have changed, and are in use now. Not for the event loop."""
        stamps = _stamps(self.options)
        if stamps == self.stamps:
            return False
        self.stamps = stamps
        try:
            renewed = server_context(self.options, self.key)
            is_asking = self.side.asking is not None
            asking = client_context(self.options, self.key) if is_asking else None
        except TlsConfigError as error:
            _log.error("certificates have changed and cannot be used", reason=error)
            return False
        self.side.context, self.side.asking = renewed, asking
        _log.info("certificates are renewed", key=self.key, certfile=self.options.certfile)
        _warn_if_expired(self.options, self.key)
        return True


@dataclass(frozen=True, slots=True)
class TlsSides:
    """None where no TLS is spoken."""

    amqp: ConfiguredSide | None = None
    http: ConfiguredSide | None = None
    links: ConfiguredSide | None = None

    def __iter__(self) -> Iterator[ConfiguredSide]:
        return (side for side in (self.amqp, self.http, self.links) if side is not None)

    def renew(self) -> None:
        for side in self:
            side.renew()


def http_options(config: Config) -> tuple[TlsOptions, str]:
    """Those of AMQP will do for HTTP if it is given none of its own, as with RabbitMQ."""
    if config.management_tls.is_given:
        return config.management_tls, HTTP_KEY
    return config.ssl_options, AMQP_KEY


def tls_sides(config: Config) -> TlsSides:
    """Raises TlsConfigError."""
    amqp = http = links = None
    if config.ssl_listeners:
        amqp = _side(config, config.ssl_options, AMQP_KEY, "AMQP")
    if config.management_tls.port is not None:
        http = _side(config, *http_options(config), "HTTP")
    if config.link_tls.is_given:
        links = _side(config, config.link_tls, LINKS_KEY, "links")
        links.side.asking = client_context(config.link_tls, LINKS_KEY)
    return TlsSides(amqp, http, links)


def _side(config: Config, options: TlsOptions, key: str, purpose: str) -> ConfiguredSide:
    stamps = _stamps(options)
    context = server_context(options, key)
    _warn_if_expired(options, key)
    side = TlsSide(context, purpose, config.ssl_handshake_timeout_ms / 1000)
    return ConfiguredSide(side, options, key, stamps)


def _warn_if_expired(options: TlsOptions, key: str) -> None:
    expires_at = expiry_of(options.certfile)
    if expires_at is not None and expires_at <= datetime.now(UTC):
        _log.warning(
            "certificate is expired: clients that look will refuse it",
            key=f"{key}.certfile", file=options.certfile, expired_at=expires_at.isoformat(),
        )  # fmt: skip


def _stamps(options: TlsOptions) -> list[Stamp]:
    named = (options.certfile, options.keyfile, options.cacertfile, options.dhfile)
    return [_stamp(path) for path in named if path]


def _stamp(path: str) -> Stamp:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
