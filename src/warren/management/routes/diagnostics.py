"""/api/warren/nodes/NODE/diagnostics: facts about a node's process for rabbitmq-diagnostics' verbs.

Each node answers for itself. Values of variables and options that may hold a secret are not shown.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import sys
from collections.abc import Callable
from typing import Final

from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS
from warren.management.errors import bad_request, no_such_object
from warren.management.json_types import Json, JsonObject
from warren.management.resource import Resource
from warren.management.routes.overview import node_in_path, running_node
from warren.management.views.certificates import tls_listeners
from warren.model.logs import TAIL, TAIL_LINES_MAX
from warren.server.tls.certificates import expiries_of

_HIDDEN: Final = "********"
_SECRET: Final = re.compile(r"secret|pass|cookie|key|token", re.IGNORECASE)
_FAMILIES: Final = {"": 0, "ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}
_PREFIXES: Final = ("WARREN_", "RABBITMQ_")


def _variables(_call: Call) -> JsonObject:
    return {
        name: _HIDDEN if _SECRET.search(name) else value
        for name, value in sorted(os.environ.items())
        if name.startswith(_PREFIXES)
    }


def _command_line(_call: Call) -> list[str]:
    shown, is_secret = [], False
    for word in sys.orig_argv:
        name, equals, _ = word.partition("=")
        named = word.startswith("--") and _SECRET.search(name) is not None
        shown.append(f"{name}={_HIDDEN}" if named and equals else _HIDDEN if is_secret else word)
        is_secret = named and not equals
    return shown


def _tls(_call: Call) -> JsonObject:
    """Versions newest first, and the cipher suites that are enabled by default."""
    known = {
        "tlsv1.3": ssl.HAS_TLSv1_3,
        "tlsv1.2": ssl.HAS_TLSv1_2,
        "tlsv1.1": ssl.HAS_TLSv1_1,
        "tlsv1": ssl.HAS_TLSv1,
    }
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    default = [cipher["name"] for cipher in context.get_ciphers()]
    context.set_ciphers("ALL")
    return {
        "versions": [name for name, is_there in known.items() if is_there],
        "cipher_suites": default,
        "all_cipher_suites": [cipher["name"] for cipher in context.get_ciphers()],
    }


def _certificates(call: Call) -> list[JsonObject]:
    return [
        {
            "protocol": protocol,
            "interface": endpoint.host or "[::]",
            "port": endpoint.port,
            "certfile": options.certfile,
            "cacertfile": options.cacertfile,
            "expires": [f"{moment:%Y-%m-%d %H:%M:%S}" for moment in expiries_of(options.certfile)],
        }
        for protocol, endpoint, options in tls_listeners(call.node)
    ]


def _interfaces(_call: Call) -> JsonObject:
    found: dict[str, Json] = {name: [] for _, name in socket.if_nameindex()}
    for name in found:
        if (address := _ipv4_of(name)) is not None:
            found[name] = [address]
    for name, address in _ipv6_addresses():
        if name in found:
            found[name] = [*found[name], address]
    return found


def _ipv4_of(name: str) -> str | None:
    import fcntl

    get_address = 0x8915  # SIOCGIFADDR
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        try:
            answer = fcntl.ioctl(asker, get_address, name.encode()[:15].ljust(256, b"\0"))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def _ipv6_addresses() -> list[tuple[str, str]]:
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as file:
            rows = [line.split() for line in file]
    except OSError:
        return []
    return [(row[5], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0]))) for row in rows]


def _attempts(call: Call) -> list[JsonObject]:
    return [
        {
            "protocol": protocol,
            "auth_attempts": attempts.succeeded + attempts.failed,
            "auth_attempts_failed": attempts.failed,
            "auth_attempts_succeeded": attempts.succeeded,
        }
        for protocol, attempts in call.node.broker.activity.attempts.items()
    ]


def _log(call: Call) -> JsonObject:
    """Lines, and how many there were until now: `after` asks for what came since."""
    after, lines = (call.query.get(name, "") for name in ("after", "lines"))
    if not all(re.fullmatch(r"\d{0,9}", text) for text in (after, lines)):
        raise bad_request("not_a_number")
    shown = TAIL.after(int(after)) if after else TAIL.last(int(lines or TAIL_LINES_MAX))
    return {"count": TAIL.count, "lines": shown}


_FACTS: Final[dict[str, Callable[[Call], Json]]] = {
    "auth-attempts": _attempts,
    "certificates": _certificates,
    "command-line": _command_line,
    "log": _log,
    "network-interfaces": _interfaces,
    "os-env": _variables,
    "tls": _tls,
}


async def _show(call: Call) -> Json:
    facts = _FACTS.get(call.parts["facts"])
    if facts is None:
        raise no_such_object()
    return facts(call)


async def _resolve(call: Call) -> JsonObject:
    family = _FAMILIES.get(call.query.get("family", "").lower())
    if family is None:
        raise bad_request("address family must be ipv4 or ipv6")
    name = call.parts["host"]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            name, None, family=family, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        raise bad_request(f"{name}: {getattr(error, 'strerror', None) or error}") from None
    return {"addresses": list(dict.fromkeys(str(entry[4][0]) for entry in found))}


RESOURCES: Final = (
    Resource(
        path="/warren/nodes/{node}/diagnostics/{facts}",
        rule=ADMINISTRATORS,
        exists=running_node,
        get=_show,
        node_of=node_in_path,
    ),
    Resource(
        path="/warren/nodes/{node}/resolve/{host}",
        rule=ADMINISTRATORS,
        exists=running_node,
        get=_resolve,
        node_of=node_in_path,
    ),
)
