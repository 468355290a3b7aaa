"""Binding addresses, with errors that say what to do."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import socket
import struct
import sys
import termios
from contextlib import suppress
from typing import Final

from warren.config.values import Endpoint

_REMEDIES: Final = {
    errno.EADDRINUSE: "stop the program that uses it, or choose another with {option}",
    errno.EACCES: "ports below 1024 need privileges; choose another with {option}",
    errno.EADDRNOTAVAIL: "this machine has no such address; choose another with {option}",
}

# struct linger: on, for 0 seconds.
_LINGER_NOT: Final = struct.pack("ii", 1, 0)


class CannotListenError(Exception):
    """An address cannot be had; the text is for the operator."""


def bind(endpoint: Endpoint, purpose: str, option: str) -> socket.socket:
    """A bound socket that does not listen yet: what is taken is known before anything starts."""
    try:
        return _bind(endpoint)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        remedy = _REMEDIES.get(error.errno or 0, "choose another with {option}")
        if isinstance(error, socket.gaierror):
            remedy = _REMEDIES[errno.EADDRNOTAVAIL]
        raise CannotListenError(
            f"cannot listen for {purpose} on {endpoint}: {reason}; {remedy.format(option=option)}"
        ) from error


def _bind(endpoint: Endpoint) -> socket.socket:
    if endpoint.host is None:
        is_dual = socket.has_dualstack_ipv6()
        family, address = (socket.AF_INET6, "::") if is_dual else (socket.AF_INET, "0.0.0.0")
    else:
        info = socket.getaddrinfo(endpoint.host, None, type=socket.SOCK_STREAM)[0]
        is_dual, family, address = False, info[0], str(info[4][0])
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_dual)
        bound.setblocking(False)
        bound.bind((address, endpoint.port))
    except OSError:
        bound.close()
        raise
    return bound


def address_of(bound: socket.socket) -> Endpoint:
    host, port = bound.getsockname()[:2]
    return Endpoint(None if host in {"::", "0.0.0.0"} else host, port)


def endpoint_of(socket_name: object) -> Endpoint:
    """As the socket has it; nothing is known of one that is closed."""
    if isinstance(socket_name, tuple) and len(socket_name) >= 2:
        return Endpoint(str(socket_name[0]), int(socket_name[1]))
    return Endpoint("unknown", 0)


def format_peer(peername: object) -> str:
    known = endpoint_of(peername)
    return str(known) if known.port else "unknown"


def is_loopback(host: str) -> bool:
    """Whether a peer's address is this machine's own, also written as IPv6."""
    return host == "::1" or host.removeprefix("::ffff:").startswith("127.")


def reset(transport: asyncio.Transport) -> None:
    """Abort a connection by a TCP reset (SO_LINGER 0), as RabbitMQ does.

    The client's next write fails. After an orderly close it would seem to succeed, and the client
    would learn of the end only by reading.
    """
    found = transport.get_extra_info("socket")
    with suppress(AttributeError, OSError):  # it may be closed already
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    transport.abort()


def unread_bytes(transport: asyncio.BaseTransport) -> int:
    """What the system holds of what has come; 0 where nobody says."""
    found = transport.get_extra_info("socket")
    try:
        answer = fcntl.ioctl(found.fileno(), termios.FIONREAD, bytes(4))
    except (AttributeError, OSError, ValueError):
        return 0
    return int.from_bytes(answer, sys.byteorder)
