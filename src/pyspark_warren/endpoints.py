"""Where brokers are: the `url` option, one address or several, of HTTP and of AMQP.

The source reads over HTTP, the sink publishes over AMQP, and both go to the next address of their
kind when one does not answer. So that one value serves both, addresses of both kinds may stand in
it: `http://a:15672,http://b:15672,amqp://a,amqp://b`.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from pyspark_warren.errors import InvalidOption

DEFAULT_PORTS: Final = {"amqp": 5672, "amqps": 5671, "http": 15672, "https": 15671}
DEFAULT_USER: Final = "guest"
ENDPOINTS_MAX: Final = 64
# So long nodes are asked that do not answer, if nobody says otherwise.
PATIENCE_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Identity:
    """What a client shows a broker besides a user name, and whom it trusts.

    Files are read where a connection is made: by the driver and by each task, so the same path has
    to be there on every machine. A file may change while a query runs; what is in it then is used
    for the next connection, which is how a long query outlives a token or a certificate.
    """

    ca_file: str | None = None
    """Who is trusted to say which broker this is; None: whom the machine trusts."""
    cert_file: str | None = None
    """The client's certificate, with its chain, as PEM."""
    key_file: str | None = None
    """The key of the certificate; None: it is in the same file."""
    token: str | None = field(default=None, repr=False)
    """An OAuth 2.0 access token."""
    token_file: str | None = None
    """A file with one, instead of `token`."""

    def bearer(self) -> str | None:
        """Return the token to show, if there is one. Raises InvalidOption."""
        if self.token_file is None:
            return self.token
        try:
            token = Path(self.token_file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidOption(f"option tokenFile: {self.token_file}: {error}") from error
        if not token:
            raise InvalidOption(f"option tokenFile: {self.token_file} is empty")
        return token


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
    identity: Identity = Identity()
    has_user: bool = True
    """False: nobody named a user, and `user` is the broker's default."""

    @property
    def is_http(self) -> bool:
        return self.scheme.startswith("http")

    @property
    def is_secure(self) -> bool:
        return self.scheme.endswith("s")

    @property
    def is_external(self) -> bool:
        """True if the client's certificate alone says who the client is."""
        identity = self.identity
        has_token = identity.token is not None or identity.token_file is not None
        return identity.cert_file is not None and not self.has_user and not has_token

    @property
    def who(self) -> str:
        """Name whoever logs in, for errors; never a password or a token."""
        if self.is_external:
            return f"certificate {self.identity.cert_file}"
        if self.identity.token is not None or self.identity.token_file is not None:
            return "a token"
        return f"user {self.user!r}"

    def tls_context(self) -> ssl.SSLContext:
        identity = self.identity
        try:
            context = ssl.create_default_context(cafile=identity.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise InvalidOption(f"option caFile: {identity.ca_file}: {error}") from error
        if identity.cert_file is None:
            return context
        try:
            # Without a password to offer, a key that is encrypted would ask the terminal for it.
            context.load_cert_chain(identity.cert_file, identity.key_file, lambda: "")
        except (OSError, ssl.SSLError, ValueError) as error:
            files = f"{identity.cert_file}, {identity.key_file or 'which has to have the key, too'}"
            raise InvalidOption(f"options certFile, keyFile: {files}: {error}") from error
        return context

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
    names = (user or DEFAULT_USER, password or DEFAULT_USER)
    return tuple(_parse(part, *names, is_named=user is not None) for part in parts)


def _parse(text: str, user: str, password: str, *, is_named: bool) -> Endpoint:
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
        has_user=is_named or parts.username is not None,
        host=parts.hostname,
        port=DEFAULT_PORTS[parts.scheme] if port is None else port,
        user=user if parts.username is None else unquote(parts.username),
        password=password if parts.password is None else unquote(parts.password),
        vhost=unquote(path) if path and parts.scheme.startswith("amqp") else None,
    )
