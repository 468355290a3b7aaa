"""What systemd wants to know of a service of `Type=notify`: that it is ready, that it stops.

A line in a datagram to the socket named by NOTIFY_SOCKET; nothing where nobody asks for it. A start
that recovers many messages takes its time, and what depends on the broker waits for it.
"""

from __future__ import annotations

import os
import socket
from typing import Final

from warren.model.logs import EventLog

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
_SOCKET: Final = "NOTIFY_SOCKET"

_log: Final = EventLog("node")


def tell_service_manager(state: str) -> None:
    """Never waits, and never fails the node: at worst the manager's patience ends."""
    address = os.environ.get(_SOCKET)
    if not address:
        return
    if address.startswith("@"):  # Linux's names outside the file system
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager:
            manager.sendto(state.encode(), address)
    except OSError as error:
        _log.warning("service manager cannot be told", state=state, reason=error)
