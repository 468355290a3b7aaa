"""Who calls, and who may: authentication, and the rules that resources are guarded by.

A user needs one of four tags to be let in at all; which of them, and for some resources a
permission in the virtual host, decides what is open to it. The rules are RabbitMQ's, also where
they surprise: `monitoring` sees all virtual hosts, but lists the queues of those only that it could
log in to.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.requests import Request

from warren.auth.access import AccessControl
from warren.auth.backends import Attempt
from warren.auth.login_guard import TooManyFailures
from warren.auth.questions import AnswerPending, Question
from warren.auth.users import User
from warren.broker.broker import Broker
from warren.broker.vhost import VirtualHost
from warren.management.cluster.serving import Inquiry
from warren.management.errors import (
    CHALLENGE,
    EmptyRefusal,
    login_failed,
    not_authorised,
    too_many_failures,
)
from warren.model.errors import LoginRefused
from warren.model.logs import EventLog
from warren.server.sockets import is_loopback

if TYPE_CHECKING:
    from warren.management.call import Call
    from warren.server.node import Node

HTTP: Final = "http"
VHOSTS_ASKED_AT_ONCE: Final = 8
# Stands for the user in the count of failed logins, where a token says who that is.
_TOKEN: Final = "(token)"
MANAGEMENT: Final = "management"
POLICYMAKER: Final = "policymaker"
MONITORING: Final = "monitoring"
ADMINISTRATOR: Final = "administrator"
MANAGEMENT_TAGS: Final = frozenset({MANAGEMENT, POLICYMAKER, MONITORING, ADMINISTRATOR})

# In the scope of a request that the management page makes: the user who is signed in there. No
# request over HTTP can put it there.
VISITOR: Final = "warren.visitor"

_log = EventLog("management")


class Caller:
    """A user that was let in."""

    def __init__(self, user: User, access: AccessControl) -> None:
        self.user = user
        self._access = access

    @property
    def is_administrator(self) -> bool:
        return ADMINISTRATOR in self.user.tags

    @property
    def is_monitor(self) -> bool:
        return ADMINISTRATOR in self.user.tags or MONITORING in self.user.tags

    @property
    def is_policymaker(self) -> bool:
        return ADMINISTRATOR in self.user.tags or POLICYMAKER in self.user.tags

    def may_log_in_to(self, vhost: str) -> bool:
        """True if the user could open a connection to it; raises AnswerPending."""
        try:
            return self._access.may_enter(self.user, vhost)
        except AnswerPending:
            raise AnswerPending(self._ask_for_vhosts) from None

    async def _ask_for_vhosts(self) -> None:
        """Ask about all virtual hosts at once: a list is about to look at every one of them."""
        room = asyncio.Semaphore(VHOSTS_ASKED_AT_ONCE)
        authorization = self.user.authorization
        assert authorization is not None, "internal users are known at once"

        async def ask(vhost: str) -> None:
            async with room:
                await authorization.ask(Question("vhost", vhost))

        await asyncio.gather(*(ask(vhost.name) for vhost in self._access.directory.vhosts()))

    def sees_vhost(self, vhost: str) -> bool:
        """Whether the list of virtual hosts shows it."""
        return self.is_monitor or self.may_log_in_to(vhost)

    def sees_contents(self, vhost: str) -> bool:
        """Whether lists of queues, exchanges and the like show what is in it."""
        return self.is_administrator or self.may_log_in_to(vhost)


async def authenticate(request: Request, node: Node, inquiry: Inquiry | None = None) -> Caller:
    """A node that asks for one of its callers has let that caller in itself, as has the page."""
    access = node.broker.access
    if inquiry is not None:
        return Caller(await _vouched_for(request, node, inquiry), access)
    if (visitor := request.scope.get(VISITOR)) is not None:
        return Caller(visitor, access)
    with _counted(node.broker):
        name, password = _credentials(request)
        return await _let_in(_host_of(request), name, password, node)


async def _vouched_for(request: Request, node: Node, inquiry: Inquiry) -> User:
    """Return the user whom another node has let in; one of another backend logs in here, too."""
    user = node.broker.access.directory.user(inquiry.user)
    if "authorization" in request.headers:
        attempt = Attempt(*_credentials(request))
        try:
            user = await node.context.backends.chain.log_in(attempt)
        except LoginRefused as refused:
            _log.warning("HTTP access denied", peer=inquiry.peer, reason=str(refused))
            raise login_failed() from None
    if user is None:
        raise login_failed()
    return user


def proof_of(user: User) -> dict[str, str]:
    """Headers with which another node lets the user in, if its backend is not the internal one."""
    if user.proof is None:
        return {}
    secret = user.proof.name.encode() + b":" + (user.proof.password or b"")
    return {"authorization": f"Basic {base64.b64encode(secret).decode()}"}


async def log_in(request: Request, name: str, password: bytes, node: Node) -> Caller:
    """By a name and a password that the request does not have in its header."""
    with _counted(node.broker):
        return await _let_in(_host_of(request), name, password, node)


@contextmanager
def _counted(broker: Broker) -> Iterator[None]:
    is_success = False
    try:
        yield
        is_success = True
    finally:
        broker.activity.attempted(HTTP, is_success)


def _host_of(request: Request) -> str:
    return request.client.host if request.client is not None else ""


async def _let_in(host: str, name: str, password: bytes, node: Node) -> Caller:
    access, guard = node.broker.access, node.context.login_guard
    attempt = Attempt(name, password)
    name = name or _TOKEN
    try:
        guard.require_room(host, name)
        user = await node.context.backends.chain.log_in(attempt)
    except TooManyFailures as refused:
        _log.warning("HTTP access denied", peer=host, reason=str(refused))
        raise too_many_failures(refused.wait_s) from None
    except LoginRefused as refused:
        guard.failed(host, name)
        _log.warning("HTTP access denied", peer=host, reason=str(refused))
        raise login_failed() from None
    guard.succeeded(host, name)
    require_welcome(user, host, access)
    return Caller(user, access)


def require_welcome(user: User, host: str, access: AccessControl) -> None:
    """Who is who it says may still have no business here, or not from there."""
    if access.is_loopback_only(user.name) and not is_loopback(host):
        raise _denied(user.name, "User can only log in via localhost")
    if MANAGEMENT_TAGS.isdisjoint(user.tags):
        raise _denied(user.name, "Not management user")


def _credentials(request: Request) -> tuple[str, bytes]:
    header = request.headers.get("authorization")
    if header is None:
        raise EmptyRefusal(401, CHALLENGE)
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() == "bearer":
        return "", encoded.strip().encode()
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True)
        name, colon, password = decoded.partition(b":")
        if scheme.lower() == "basic" and colon:
            return name.decode(), password
    except (binascii.Error, UnicodeDecodeError):
        pass
    raise EmptyRefusal(400)


def _denied(name: str, reason: str) -> Exception:
    _log.warning("HTTP access denied", user=name, reason=reason)
    return not_authorised(reason)


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may use a resource, and what the others are told."""

    permits: Callable[[Call], bool]
    refusal: str = ""
    is_login_needed: bool = True

    def require(self, call: Call) -> None:
        if not self.permits(call):
            raise _denied(call.user.name, self.refusal)


def _in_vhost(call: Call) -> bool:
    """A virtual host that does not exist is refused later, as something that is not there."""
    name = call.vhost_name
    if call.caller.is_administrator or name is None or call.find_vhost() is None:
        return True
    return call.caller.may_log_in_to(name)


def _in_visible_vhost(call: Call) -> bool:
    return call.caller.is_monitor or _in_vhost(call)


_NO_VHOST: Final = "User not authorised to access virtual host"
_READING: Final = frozenset({"GET", "HEAD"})
_NO_OBJECT: Final = "User not authorised to access object"

# Without a name, even.
EVERYBODY: Final = Rule(lambda call: True, is_login_needed=False)
# Every tag will do.
ANY_TAG: Final = Rule(lambda call: True)
ADMINISTRATORS: Final = Rule(lambda call: call.caller.is_administrator, "Not administrator user")
MONITORS: Final = Rule(lambda call: call.caller.is_monitor, "Not monitor user")
# Of the virtual host in the path, if there is one.
VHOST_USERS: Final = Rule(_in_vhost, _NO_VHOST)
VHOST_VIEWERS: Final = Rule(_in_visible_vhost, _NO_VHOST)
POLICYMAKERS: Final = Rule(
    lambda call: call.caller.is_administrator or (call.caller.is_policymaker and _in_vhost(call)),
    _NO_OBJECT,
)
GLOBAL_POLICYMAKERS: Final = Rule(lambda call: call.caller.is_policymaker, _NO_OBJECT)
# Other resources ask for an administrator to change these.
_OF_ADMINISTRATORS: Final = frozenset({"cluster_name", "internal_cluster_id"})


def _may_use_global_parameter(call: Call) -> bool:
    if call.request.method in _READING or call.parts["name"] not in _OF_ADMINISTRATORS:
        return call.caller.is_policymaker
    return call.caller.is_administrator


GLOBAL_PARAMETER_SETTERS: Final = Rule(_may_use_global_parameter, _NO_OBJECT)


def visible_vhosts(call: Call) -> Iterator[VirtualHost]:
    """Those whose contents a list shows: the one that was asked for, or all that are open."""
    wanted = call.vhost_name
    for vhost in list(call.broker.vhosts.values()):
        if wanted in (None, vhost.name) and call.caller.sees_contents(vhost.name):
            yield vhost
