"""Attackers of the security audit: what each sends for some seconds, and what it got for that.

Each runs in a process of its own (`bench.apart`), and they need no more than a tenant has, or no
login at all. The names are those of the audit: a-pol is a policymaker of virtual host a, a-mgmt may
look at the management page, a-app only publishes and consumes.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final
from urllib.parse import quote

from pika.exceptions import AMQPError  # type: ignore[import-untyped]

from bench.probe import Login

PASSWORD: Final = "a password of the bench"
ANSWER_S_MAX: Final = 60.0
LARGE_BYTES: Final = 10_000_000
FORM_TYPE: Final = "application/x-www-form-urlencoded"
HALF_SENT: Final = 1_010
IDLE_LINKS: Final = 3_000
# Names that a pattern which backtracks takes for ever to refuse.
HARD_NAME: Final = "a" * 48 + "b"
# The first three are for an engine in linear time, the others need one that backtracks.
PATTERNS: Final = (
    "^(a+)+$",
    "x*x*x*x*y",
    "(?:x{200}){5}",
    r"(?=(a+)+$)(a+)\1c",
    r"((a|aa)+)\1$",
    r"^(?:(\w+)x?)+(?!\1)$",
    r"(a*)*\1b\1(?<!b)$",
)


@dataclass(frozen=True)
class Target:
    port: int
    http_port: int
    cluster_port: int = 0

    def login(self, user: str) -> Login:
        return Login(self.port, user, PASSWORD, user[0])

    def ask(
        self, user: str, method: str, path: str, body: bytes = b"", kind: str = "application/json"
    ) -> str:
        """Return the status, or how the connection ended."""
        password = "guest" if user == "guest" else PASSWORD
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        headers = {"authorization": f"Basic {token}"} if user else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=ANSWER_S_MAX)
        try:
            connection.request(method, path, body, {**headers, "content-type": kind})
            answer = connection.getresponse()
            answer.read()
            return str(answer.status)
        except TimeoutError:
            return "no answer"
        except (OSError, http.client.HTTPException):
            return "closed"
        finally:
            connection.close()


Attack = Callable[[Connection, Target, float], str]


def _until(seconds: float, rounds: Iterable[Callable[[], str]]) -> str:
    """Go through the rounds again and again until the time is over; count what they came to."""
    ends = time.monotonic() + seconds
    outcomes: Counter[str] = Counter()
    rounds = tuple(rounds)
    while time.monotonic() < ends:
        for one in rounds:
            outcomes[one()] += 1
            if time.monotonic() >= ends:
                break
    return shown(outcomes)


def shown(outcomes: Counter[str]) -> str:
    return ", ".join(f"{outcome} ({count})" for outcome, count in outcomes.most_common())


def policy_patterns(_pipe: Connection, target: Target, seconds: float) -> str:
    """C1: a policymaker sets patterns, and tries them with `dry-run`; the queue is there."""

    def asking(method: str, path: str, pattern: str) -> Callable[[], str]:
        body = json.dumps({"pattern": pattern, "definition": {"max-length": 10}}).encode()
        return lambda: target.ask("a-pol", method, path, body)

    rounds = [asking("PUT", "/api/policies/a/p", pattern) for pattern in PATTERNS]
    rounds += [asking("POST", "/api/warren/policies/a/dry-run", pattern) for pattern in PATTERNS]
    return _until(seconds, rounds)


def permission_patterns(_pipe: Connection, target: Target, seconds: float) -> str:
    """C1: an administrator is talked into a permission, and its user declares hard names."""
    outcomes: Counter[str] = Counter()
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for pattern in PATTERNS:
            body = json.dumps({"configure": pattern, "write": pattern, "read": pattern}).encode()
            outcomes[target.ask("guest", "PUT", "/api/permissions/a/a-app", body)] += 1
            outcomes[_declared(target)] += 1
    return shown(outcomes)


def _declared(target: Target) -> str:
    try:
        connection = target.login("a-app").connect()
        try:
            connection.channel().queue_declare(HARD_NAME)
            return "declared"
        finally:
            connection.close()
    except AMQPError as error:
        return type(error).__name__


def hard_filters(_pipe: Connection, target: Target, seconds: float) -> str:
    """H1: lists of queues, filtered by patterns that are meant for one hard name."""
    return _until(seconds, _filters(target, PATTERNS))


def filters_of_many(_pipe: Connection, target: Target, seconds: float) -> str:
    """H1: no trick name, only many long ones."""
    return _until(seconds, _filters(target, ("x*x*x*x*y", "(?:x{1,20}y?){20}z", r"(x+)x*x*\1y")))


def _filters(target: Target, patterns: Iterable[str]) -> list[Callable[[], str]]:
    def asking(pattern: str) -> Callable[[], str]:
        path = f"/api/queues/a?page=1&use_regex=true&name={quote(pattern)}"
        return lambda: target.ask("a-mgmt", "GET", path)

    return [asking(pattern) for pattern in patterns]


def overviews(_pipe: Connection, target: Target, seconds: float) -> str:
    """No attack: what a request costs that the management page makes all the time."""
    return _until(seconds, [lambda: target.ask("a-mgmt", "GET", "/api/overview")])


def large_login_forms(_pipe: Connection, target: Target, seconds: float) -> str:
    """H2: 10 MB of percent signs; nobody is logged in."""
    form = b"username=" + b"%41" * (LARGE_BYTES // 3)
    return _until(seconds, [lambda: target.ask("", "POST", "/login", form, FORM_TYPE)])


def long_names(_pipe: Connection, target: Target, _seconds: float) -> str:
    """H3: 60 failed logins with names of 10 MB."""
    outcomes: Counter[str] = Counter()
    for number in range(60):
        form = b"username=%d" % number + b"b" * LARGE_BYTES
        outcomes[target.ask("", "POST", "/login", form, FORM_TYPE)] += 1
    return shown(outcomes)


def half_sent_requests(_pipe: Connection, target: Target, seconds: float) -> str:
    """M1: more connections than there is room for, each with half a request."""
    clients = []
    for _ in range(HALF_SENT):
        with suppress(OSError):
            clients.append(_connected(target.http_port))
            clients[-1].sendall(b"GET /api/overview HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    answers = _until(
        seconds,
        [
            lambda: "readiness check " + target.ask("", "GET", "/api/health/checks/ready"),
            lambda: "overview " + target.ask("a-mgmt", "GET", "/api/overview"),
            _pause,
        ],
    )
    for client in clients:
        client.close()
    return answers


def _pause() -> str:
    time.sleep(0.1)
    return "pause"


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), ANSWER_S_MAX)


def _frame(payload: bytes) -> bytes:
    return struct.pack(">BHI", 1, 0, len(payload)) + payload + b"\xce"


def _short(octets: bytes) -> bytes:
    return bytes([len(octets)]) + octets


def _long(octets: bytes) -> bytes:
    return struct.pack(">I", len(octets)) + octets


_CAPABILITIES: Final = _short(b"capabilities") + b"F" + _long(
    _short(b"authentication_failure_close") + b"t\x01"
)  # fmt: skip
_WRONG_LOGIN: Final = _frame(
    struct.pack(">HH", 10, 11) + _long(_CAPABILITIES) + _short(b"PLAIN") + _long(b"\0nobody\0x")
    + _short(b"en_US")
)  # fmt: skip
_MANY_METHODS: Final = _frame(struct.pack(">HH", 10, 99)) * 5_461


def flood_after_refusal(_pipe: Connection, target: Target, seconds: float) -> str:
    """M3: fail to log in, and go on sending methods; begin anew when the socket is closed."""
    sent = rounds = 0
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        rounds += 1
        with suppress(OSError), _connected(target.port) as client:
            client.sendall(b"AMQP\0\0\x09\x01")
            client.recv(65_536)
            client.sendall(_WRONG_LOGIN)
            client.recv(4_096)
            while time.monotonic() < ends:
                client.sendall(_MANY_METHODS)
                sent += len(_MANY_METHODS)
    return f"closed ({rounds}), {sent / 1e6:,.0f} MB sent"


def large_json(_pipe: Connection, target: Target, seconds: float) -> str:
    """M7: bodies of 10 MB that are all structure, to declare a queue and to publish a message."""
    nested = b'{"value":[' + b"[]," * (LARGE_BYTES // 3 - 10) + b"[]]}"

    def asking(user: str, method: str, path: str) -> Callable[[], str]:
        return lambda: target.ask(user, method, path, nested)

    return _until(
        seconds,
        [
            asking("a-mgmt", "PUT", "/api/queues/a/large"),
            asking("a-mgmt", "POST", "/api/exchanges/a/amq.default/publish"),
        ],
    )


def idle_links(_pipe: Connection, target: Target, seconds: float) -> str:
    """L7: connections to the port for other nodes that say nothing."""
    ends = time.monotonic() + seconds
    clients = [_connected(target.cluster_port) for _ in range(IDLE_LINKS)]
    time.sleep(max(1.0, (ends - time.monotonic()) / 2))
    still_open = sum(map(_is_open, clients))
    time.sleep(max(0.0, ends - time.monotonic()))
    for client in clients:
        client.close()
    return f"{still_open} of {IDLE_LINKS} open at once"


def _is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        while octets := client.recv(4_096):
            del octets
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
