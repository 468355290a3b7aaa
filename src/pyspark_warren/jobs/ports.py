"""Ports of a broker: which protocol an address speaks, asked before anything else is done.

The ports of AMQP and of the management API are easily taken for each other, and the answer of the
wrong one is hard to understand: so each address is asked what it speaks with a few bytes, and told
apart by how the answer begins. What does not answer is left alone: a node that is restarting, or
one that is down while others are up, is for failover.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from pyspark_warren.amqp_handshake import PROTOCOL_HEADER
from pyspark_warren.endpoints import DEFAULT_PORTS
from pyspark_warren.errors import InvalidOption

if TYPE_CHECKING:
    from pyspark_warren.endpoints import Endpoint

ANSWER_WITHIN_S: Final = 3.0
THREADS_MAX: Final = 16
_SHOWN_BYTES: Final = 40
_TLS: Final = (b"\x15\x03", b"\x16\x03")
"""An alert, or a handshake."""
_HTTP: Final = b"HTTP/"
# Both AMQP 0-9-1 and a frame of it: its type, and channel 0.
_AMQP: Final = (b"AMQP", b"\x01\x00\x00")


def check_ports(endpoints: Iterable[Endpoint]) -> None:
    """Ask all addresses at once. Raises InvalidOption for the first that speaks another protocol.

    The address is in the error without user and password.
    """
    asked = list(endpoints)
    with ThreadPoolExecutor(min(THREADS_MAX, len(asked))) as pool:
        problems = list(pool.map(_problem, asked))
    for endpoint, problem in zip(asked, problems, strict=True):
        if problem is not None:
            raise InvalidOption(f"option url: {endpoint} {problem}")


def _problem(endpoint: Endpoint) -> str | None:
    try:
        answer = _answer(endpoint)
    except ssl.SSLError as error:
        if error.reason == "WRONG_VERSION_NUMBER":
            plain = endpoint.scheme.removesuffix("s")
            return f"does not speak TLS; give {_example(endpoint, endpoint.scheme)} or {plain}://"
        return None  # such as a certificate that is not trusted, which is told where it is used
    except OSError:
        return None
    return _judged(endpoint, answer)


def _judged(endpoint: Endpoint, answer: bytes) -> str | None:
    is_http = answer.startswith(_HTTP)
    is_amqp = answer.startswith(_AMQP)
    if not answer or (is_http if endpoint.is_http else is_amqp):
        return None
    wanted = "the management API" if endpoint.is_http else "AMQP"
    right = f"give the port of {wanted}, such as {_example(endpoint, endpoint.scheme)}"
    if is_amqp:
        return f"speaks AMQP and not HTTP; {right}"
    if is_http:
        return f"speaks HTTP and not AMQP; {right}"
    if answer.startswith(_TLS):
        return f"speaks TLS; give {_example(endpoint, endpoint.scheme + 's')}"
    shown = answer[:_SHOWN_BYTES].decode("latin-1")
    return f"is no broker: what answers there begins with {shown!r}; {right}"


def _example(endpoint: Endpoint, scheme: str) -> str:
    scheme = scheme if scheme in DEFAULT_PORTS else endpoint.scheme
    return f"{scheme}://{endpoint.host}:{DEFAULT_PORTS[scheme]}"


def _answer(endpoint: Endpoint) -> bytes:
    """Return how the answer begins.

    A server of HTTP may wait for the rest of what it takes for a request; so where nothing comes,
    the other question is asked.
    """
    as_http = f"GET / HTTP/1.0\r\nHost: {endpoint.host}\r\n\r\n".encode()
    if endpoint.is_http:
        return _asked(endpoint, as_http)
    try:
        return _asked(endpoint, PROTOCOL_HEADER)
    except TimeoutError:
        return _asked(endpoint, as_http)


def _asked(endpoint: Endpoint, question: bytes) -> bytes:
    address = (endpoint.host, endpoint.port)
    with socket.create_connection(address, ANSWER_WITHIN_S) as plain:
        if not endpoint.is_secure:
            return _exchanged(plain, question)
        with endpoint.tls_context().wrap_socket(plain, server_hostname=endpoint.host) as secure:
            return _exchanged(secure, question)


def _exchanged(connection: socket.socket, question: bytes) -> bytes:
    connection.sendall(question)
    return connection.recv(_SHOWN_BYTES)
