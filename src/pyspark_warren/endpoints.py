"""Where brokers are: the `url` option, one address or several, of HTTP and of AMQP.

The source reads over HTTP, the sink publishes over AMQP, and both go to the next address of their
kind when one does not answer. So that one value serves both, addresses of both kinds may stand in
it: `http://a:15672,http://b:15672,amqp://a,amqp://b`.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from pyspark_warren.errors import InvalidOption

DEFAULT_PORTS: Final = {"amqp": 5672, "amqps": 5671, "http": 15672, "https": 15671}
DEFAULT_USER: Final = "guest"
ENDPOINTS_MAX: Final = 64
# So long nodes are asked that do not answer, if nobody says otherwise.
PATIENCE_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of one node, and who we are there."""

    scheme: str
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    vhost: str | None = None
    """Only of AMQP addresses that name one."""
    ca_file: str | None = None
    """Who is trusted to say which broker this is; None: whom the machine trusts."""

    @property
    def is_http(self) -> bool:
        return self.scheme.startswith("http")

    @property
    def is_secure(self) -> bool:
        return self.scheme.endswith("s")

    def tls_context(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise InvalidOption(f"option caFile: {self.ca_file}: {error}") from error

    def untrusted(self, error: ssl.SSLCertVerificationError) -> InvalidOption:
        """No other node would be believed any more than this one."""
        return InvalidOption(
            f"{self} is not trusted ({error.verify_message}): name who signed its certificate with "
            "option caFile"
        )

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


def parse_endpoints(
    text: str, user: str | None = None, password: str | None = None
) -> tuple[Endpoint, ...]:
    """Addresses in the order given. Who is named in an address goes before `user`.

    Examples
    --------
    >>> [str(endpoint) for endpoint in parse_endpoints("http://a, amqp://b:5673/%2F")]
    ['http://a:15672', 'amqp://b:5673']
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not 1 <= len(parts) <= ENDPOINTS_MAX:
        raise InvalidOption(f"option url: give 1 to {ENDPOINTS_MAX} addresses, such as http://host")
    return tuple(_parse(part, user or DEFAULT_USER, password or DEFAULT_USER) for part in parts)


def _parse(text: str, user: str, password: str) -> Endpoint:
    # The address is not in any message as it is: there may be a password in it.
    if "://" not in text:
        raise InvalidOption(
            f"option url: an address begins with one of {', '.join(DEFAULT_PORTS)} and ://"
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise InvalidOption("option url: an address is not host:port") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise InvalidOption(f"option url: {parts.scheme}:// is none of {', '.join(DEFAULT_PORTS)}")
    if not parts.hostname:
        raise InvalidOption(f"option url: an address of {parts.scheme}:// names no host")
    path = parts.path.removeprefix("/")
    return Endpoint(
        scheme=parts.scheme,
        host=parts.hostname,
        port=DEFAULT_PORTS[parts.scheme] if port is None else port,
        user=user if parts.username is None else unquote(parts.username),
        password=password if parts.password is None else unquote(parts.password),
        vhost=unquote(path) if path and parts.scheme.startswith("amqp") else None,
    )
