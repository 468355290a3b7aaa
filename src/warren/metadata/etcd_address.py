"""Where etcd is: `etcd://HOST:PORT[,HOST:PORT...]`, read once and never guessed at.

    etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379
    etcd://user:password@10.0.0.1:2379
    etcds://10.0.0.1:2379?cacertfile=ca.pem&certfile=node.pem&keyfile=node.key

`etcds` is TLS; the certificates are optional, and without a cacertfile the system's are trusted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

PLAIN_SCHEME: Final = "etcd://"
TLS_SCHEME: Final = "etcds://"
DEFAULT_PORT: Final = 2379
ENDPOINTS_MAX: Final = 64
DEFAULT_NAMESPACE: Final = "default"
"""Of clusters that have no name: what they keep in etcd is under it."""
_FILES: Final = ("cacertfile", "certfile", "keyfile")


class BadEtcdAddress(ValueError):
    """The text says what is wrong with which part."""


@dataclass(frozen=True, slots=True)
class EtcdAddress:
    endpoints: tuple[str, ...]
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    is_tls: bool = False
    cacertfile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None

    def __str__(self) -> str:
        """Without the password: this is what logs show."""
        return (TLS_SCHEME if self.is_tls else PLAIN_SCHEME) + ",".join(self.endpoints)


def is_etcd_address(text: str) -> bool:
    return text.startswith((PLAIN_SCHEME, TLS_SCHEME))


def parse_etcd_address(text: str) -> EtcdAddress:
    """Raises BadEtcdAddress."""
    if not is_etcd_address(text):
        raise BadEtcdAddress(f"expected etcd://HOST:PORT[,HOST:PORT...], got '{text}'")
    is_tls = text.startswith(TLS_SCHEME)
    rest = text.partition("://")[2]
    rest, _, query = rest.partition("?")
    credentials, separator, hosts = rest.rpartition("@")
    username, password = _credentials(credentials) if separator else (None, None)
    return EtcdAddress(
        _endpoints(hosts.rstrip("/")), username, password, is_tls, **_files(query, is_tls)
    )


def _credentials(text: str) -> tuple[str, str]:
    name, separator, password = text.partition(":")
    if not name or not separator:
        raise BadEtcdAddress("expected USER:PASSWORD before the @ of an etcd address")
    return unquote(name), unquote(password)


def _endpoints(text: str) -> tuple[str, ...]:
    endpoints = tuple(_endpoint(part.strip()) for part in text.split(","))
    if len(endpoints) > ENDPOINTS_MAX:
        raise BadEtcdAddress(f"at most {ENDPOINTS_MAX} etcd endpoints can be given")
    return endpoints


def _endpoint(text: str) -> str:
    host, separator, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not separator:
        host, port = text, str(DEFAULT_PORT)
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise BadEtcdAddress(f"expected HOST:PORT as an etcd endpoint, got '{text}'")
    return f"{host}:{port}"


def _files(query: str, is_tls: bool) -> dict[str, str]:
    files = dict(parse_qsl(query, keep_blank_values=True))
    for name in files:
        if name not in _FILES:
            raise BadEtcdAddress(
                f"unknown '{name}' in the etcd address; known are {', '.join(_FILES)}"
            )
    if files and not is_tls:
        raise BadEtcdAddress("certificates need etcds:// instead of etcd://")
    if ("certfile" in files) != ("keyfile" in files):
        raise BadEtcdAddress("certfile and keyfile of an etcd address go together")
    return files
