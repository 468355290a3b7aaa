"""Web requests of backends: blocking, for their threads, with one kept connection per thread."""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final, Protocol
from urllib.parse import urlsplit

from warren.auth.backends import BackendError
from warren.config.tls import VERIFY_NONE

ANSWER_BYTES_MAX: Final = 1_048_576
ATTEMPTS_MAX: Final = 2
"""A kept connection may have been closed by the server: then a new one is tried, once."""


class TlsChoice(Protocol):
    @property
    def cacertfile(self) -> str: ...

    @property
    def verify(self) -> str: ...

    @property
    def hostname_verification(self) -> str: ...


def tls_context(choice: TlsChoice, certfile: str = "", keyfile: str = "") -> ssl.SSLContext:
    """Return the context for requests to a server. Raises OSError for files that cannot be used."""
    context = ssl.create_default_context(cafile=choice.cacertfile or None)
    if choice.verify == VERIFY_NONE or choice.hostname_verification == "none":
        context.check_hostname = False
    if choice.verify == VERIFY_NONE:
        context.verify_mode = ssl.CERT_NONE
    if certfile:
        context.load_cert_chain(certfile, keyfile or None)
    return context


@dataclass(frozen=True, slots=True)
class WebRequest:
    url: str
    method: str = "GET"
    body: bytes | None = field(default=None, repr=False)
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WebAnswer:
    status: int
    body: bytes


class WebClient:
    """Sends requests; each thread has connections of its own."""

    def __init__(self, tls: ssl.SSLContext, connect_s: float, answer_s: float) -> None:
        self._tls = tls
        self._connect_s = connect_s
        self._answer_s = answer_s
        self._of_thread = threading.local()

    def send(self, request: WebRequest) -> WebAnswer:
        """Raises BackendError."""
        try:
            return self._send(request)
        except (OSError, HTTPException) as error:
            where = urlsplit(request.url)
            raise BackendError(
                f"{where.scheme}://{where.netloc}{where.path}: {str(error) or type(error).__name__}"
            ) from None

    def _send(self, request: WebRequest) -> WebAnswer:
        parts = urlsplit(request.url)
        key = (parts.scheme, parts.netloc)
        connections = self._connections()
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        for attempt in range(1, ATTEMPTS_MAX + 1):
            kept = connections.pop(key, None)
            connection = kept or self._connected(parts.scheme, parts.hostname or "", parts.port)
            try:
                connection.request(request.method, target, request.body, request.headers)
                answer = connection.getresponse()
                body = answer.read(ANSWER_BYTES_MAX + 1)
            except (ConnectionError, HTTPException):
                connection.close()
                if kept is None or attempt == ATTEMPTS_MAX:
                    raise
                continue
            except BaseException:
                connection.close()
                raise
            if len(body) > ANSWER_BYTES_MAX:
                connection.close()
                raise HTTPException(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
            if answer.will_close:
                connection.close()
            else:
                connections[key] = connection
            return WebAnswer(answer.status, body)
        raise AssertionError("the last attempt returns or raises")

    def _connections(self) -> dict[tuple[str, str], HTTPConnection]:
        """Return the kept connections of this thread, by scheme and server."""
        kept: dict[tuple[str, str], HTTPConnection] | None
        kept = getattr(self._of_thread, "kept", None)
        if kept is None:
            kept = self._of_thread.kept = {}
        return kept

    def _connected(self, scheme: str, host: str, port: int | None) -> HTTPConnection:
        connection = (
            HTTPSConnection(host, port, timeout=self._connect_s, context=self._tls)
            if scheme == "https"
            else HTTPConnection(host, port, timeout=self._connect_s)
        )
        connection.connect()
        connection.sock.settimeout(self._answer_s)
        return connection
