"""HTTP connection to a node's API: kept alive, with a password or a token, and JSON bodies.

A connection that was kept for long may have been closed by the node meanwhile, which shows only
when it is used again. That is no fault of a request: it is sent once more over a new connection, if
the caller says that repeating it does no harm. Everything else is raised as `http.client` raises
it: the callers differ in what they make of a node that does not answer.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssl import SSLContext


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Address of a node's HTTP API, and who calls it."""

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    tls: SSLContext | None = None
    """None: plain HTTP."""
    agent: str = "warren"
    token: str = field(default="", repr=False)
    """OAuth 2.0 access token, which is sent in place of user and password."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request. `body` is sent as JSON, unless it is None."""

    method: str
    path: str
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    is_repeatable: bool = True
    """True if it does no harm to send the request twice."""


class ApiConnection:
    """One connection, made when it is first needed, and again after `close`."""

    def __init__(self, address: HttpAddress) -> None:
        self.address = address
        self._connection: HTTPConnection | None = None

    def request(self, request: HttpRequest, timeout_s: float | None = None) -> HTTPResponse:
        """Return the answer, whatever its status; the caller reads its body.

        `timeout_s` bounds each wait for the node. Raises OSError and HTTPException.
        """
        is_kept = self._connection is not None and self._connection.sock is not None
        try:
            return self._send(request, timeout_s)
        except ConnectionError:
            self.close()
            if not (is_kept and request.is_repeatable):
                raise
            return self._send(request, timeout_s)

    def _send(self, request: HttpRequest, timeout_s: float | None) -> HTTPResponse:
        if self._connection is None:
            self._connection = self._new()
        connection = self._connection
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        body = None if request.body is None else json.dumps(request.body).encode()
        connection.request(request.method, request.path, body, self._headers() | request.headers)
        return connection.getresponse()

    def _new(self) -> HTTPConnection:
        host, port, tls = self.address.host, self.address.port, self.address.tls
        return (
            HTTPConnection(host, port) if tls is None else HTTPSConnection(host, port, context=tls)
        )

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": self.address.agent}
        if self.address.token:
            headers["Authorization"] = f"Bearer {self.address.token}"
        elif self.address.user:
            secret = f"{self.address.user}:{self.address.password}".encode()
            headers["Authorization"] = f"Basic {b64encode(secret).decode()}"
        return headers

    def close(self) -> None:
        """Close the connection; the next request makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
