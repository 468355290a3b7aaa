"""The management API of a node, and what goes wrong on the way to it, said so that one can act."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit

from warren import __version__
from warren.cli.ctl.verbs import Exit, Failure, error
from warren.client.http import ApiConnection, HttpAddress, HttpRequest

if TYPE_CHECKING:
    import ssl

DEFAULT_URL: Final = "http://127.0.0.1:15672"
DEFAULT_USER: Final = "guest"
DEFAULT_PASSWORD: Final = "guest"
READY: Final = ("health", "checks", "ready")
ANSWER_S_MAX: Final = 7.0
# A node waits for another one 10 s at most before it says that the other is silent.
PASSED_ON_S_MAX: Final = 12.0

# The API speaks of arbitrary JSON; what is in it is checked where it is used.
Body = Any


class Refusal(Exception):
    """The node answered, and said no; `facts` is what else it said."""

    def __init__(
        self, status: int, kind: str, reason: str, facts: dict[str, Any] | None = None
    ) -> None:
        super().__init__(f"{kind}: {reason}")
        self.status = status
        self.kind = kind
        self.reason = reason
        self.facts = facts or {}


class NotFound(Refusal):
    """404."""


@dataclass(frozen=True)
class Trust:
    """For https: who vouches for the node, and what we show. Empty: the system's authorities."""

    cacertfile: str = ""
    certfile: str = ""
    keyfile: str = ""

    def context(self) -> ssl.SSLContext:
        import ssl

        context = ssl.create_default_context(cafile=self.cacertfile or None)
        if self.certfile:
            context.load_cert_chain(self.certfile, self.keyfile or None)
        return context


@dataclass(frozen=True)
class Target:
    """Where the API is, and who asks."""

    url: str
    user: str
    password: str
    trust: Trust = Trust()

    @classmethod
    def of(
        cls, url: str, user: str | None, password: str | None, trust: Trust | None = None
    ) -> Target:
        """The address may hold the credentials; what is said elsewhere goes before."""
        if "://" not in url:
            url = f"http://{url}"
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = 0
        if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
            raise Failure(f"Error: '{url}' is not the address of a management API", Exit.USAGE)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        place = host if port is None else f"{host}:{port}"
        return cls(
            f"{parts.scheme}://{place}{parts.path.rstrip('/')}",
            user or unquote(parts.username or "") or DEFAULT_USER,
            password or unquote(parts.password or "") or DEFAULT_PASSWORD,
            trust or Trust(),
        )


class Api:
    """One connection, made when first needed. All requests together take `timeout_s` at most."""

    def __init__(self, target: Target, timeout_s: float | None) -> None:
        self.target = target
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._connection: ApiConnection | None = None

    def get(self, *path: str, **query: str) -> Body:
        return self._request("GET", path, query)

    def get_or_none(self, *path: str, **query: str) -> Body:
        """None if there is no such thing."""
        try:
            return self._request("GET", path, query)
        except NotFound:
            return None

    def reach(self, within_s: float) -> None:
        """Raise a Failure (69) unless a management API answers, whatever it says."""
        try:
            status, received = self._exchange(HttpRequest("GET", self._place(READY)), within_s)
        except Failure as failure:
            raise Failure(failure.text) from failure
        if received or status == http.client.NOT_FOUND:
            self._decoded(received)

    def put(self, *path: str, body: object) -> Body:
        return self._request("PUT", path, {}, body)

    def post(self, *path: str, body: object = None) -> Body:
        return self._request("POST", path, {}, body)

    def delete(self, *path: str, reason: str | None = None, **query: str) -> Body:
        headers = {} if reason is None else {"X-Reason": quote(reason, safe=" !#$%&'()*+,/:;=?@[]")}
        return self._request("DELETE", path, query, headers=headers)

    def _request(
        self,
        method: str,
        path: tuple[str, ...],
        query: dict[str, str],
        body: object = None,
        *,
        headers: dict[str, str] | None = None,
    ) -> Body:
        place = self._place(path)
        if query:
            place += f"?{urlencode(query)}"
        is_repeatable = method != "POST"
        status, received = self._exchange(
            HttpRequest(method, place, body, headers or {}, is_repeatable)
        )
        if status < http.client.MULTIPLE_CHOICES:
            return self._decoded(received) if received else None
        raise self._refusal(status, received)

    def _place(self, path: tuple[str, ...]) -> str:
        return f"{urlsplit(self.target.url).path}/api/" + "/".join(quote(p, safe="") for p in path)

    def _decoded(self, received: bytes) -> Body:
        try:
            return json.loads(received)
        except ValueError:
            reason = "what answers there is a web server, but no management API"
            raise Failure(self._unreachable(reason)) from None

    def _exchange(self, request: HttpRequest, within_s: float | None = None) -> tuple[int, bytes]:
        left_s = None if self._deadline is None else self._deadline - time.monotonic()
        if within_s is not None:
            left_s = within_s if left_s is None else min(left_s, within_s)
        if left_s is not None and left_s <= 0:
            raise Failure(self._late(self._timeout_s), Exit.TEMPORARY)
        if self._connection is None:
            self._connection = ApiConnection(self._address())
        try:
            response = self._connection.request(request, left_s)
            return response.status, response.read()
        except TimeoutError as late:
            self.close()
            raise Failure(self._late(within_s or self._timeout_s), Exit.TEMPORARY) from late
        except (OSError, http.client.HTTPException) as fault:
            self.close()
            raise Failure(self._unreachable(_reason(fault))) from fault

    def _address(self) -> HttpAddress:
        parts = urlsplit(self.target.url)
        is_secure = parts.scheme == "https"
        return HttpAddress(
            host=parts.hostname or "",
            port=parts.port or (443 if is_secure else 80),
            user=self.target.user,
            password=self.target.password,
            tls=self._tls_context() if is_secure else None,
            agent=f"warrenctl/{__version__}",
        )

    def _tls_context(self) -> ssl.SSLContext:
        trust = self.target.trust
        try:
            return trust.context()
        except OSError as fault:
            named = ", ".join(filter(None, (trust.cacertfile, trust.certfile, trust.keyfile)))
            raise Failure(
                f"Error: certificates cannot be used: {named}: {_reason(fault)}"
            ) from fault

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _refusal(self, status: int, received: bytes) -> Exception:
        import html

        said: dict[str, Any] = {}
        try:
            said = json.loads(received)
            kind, reason = str(said.get("error", "")), said.get("reason", "")
        except (ValueError, AttributeError):
            kind, reason = http.client.responses.get(status, str(status)), ""
        # RabbitMQ escapes its reasons for the web page that shows them.
        text = html.unescape(reason if isinstance(reason, str) else json.dumps(reason))
        if status == http.client.UNAUTHORIZED:
            return Failure(self._unauthorised(text))
        if status == http.client.NOT_FOUND:
            return NotFound(status, kind, text)
        return Refusal(status, kind, text, said)

    def _unauthorised(self, reason: str) -> str:
        user, url = self.target.user, self.target.url
        if reason in {"", "Login failed"} or "not_authori" in reason:
            return (
                f"Error: {url} does not accept the password of user '{user}'\n\n"
                "Say who you are with --username and --password, in the address\n"
                "(http://user:password@host:15672), or in WARREN_USER and WARREN_PASSWORD."
            )
        return f"Error: user '{user}' may not do this: {reason}"

    def _late(self, waited_s: float | None) -> str:
        waited = f"{waited_s or 0:.1f} s"
        return f"Error: {self.target.url} did not answer in time. Timeout used: {waited}"

    def _unreachable(self, reason: str) -> str:
        return (
            f"Error: unable to reach a node at {self.target.url}: {reason}\n\n"
            "Most common reasons for this are:\n\n"
            " * The node is not running: start it with 'warren server'\n"
            " * Its management API is at another address: give it with --url or WARREN_URL\n"
            " * The host name, a firewall or a TLS certificate is in the way"
        )


def _reason(fault: Exception) -> str:
    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror
    if isinstance(fault, http.client.BadStatusLine) and "AMQP" in str(fault):
        return "that port is for AMQP clients; the management API has another one (default 15672)"
    if isinstance(fault, http.client.HTTPException):
        return f"what answers there does not speak HTTP ({type(fault).__name__})"
    return str(fault) or type(fault).__name__


def as_failure(refusal: Refusal) -> Failure:
    """A refusal nobody expected."""
    text = refusal.reason or refusal.kind
    if refusal.status >= http.client.INTERNAL_SERVER_ERROR:
        return error(f"the node answered {refusal.status}: {text}")
    is_data = refusal.status == http.client.BAD_REQUEST
    code = Exit.DATA if is_data else Exit.UNAVAILABLE
    return error(text, code, Exit.UNAVAILABLE, _hint(refusal.reason))


def _hint(reason: str) -> str:
    """The meaning of a refusal that RabbitMQ words as a term."""
    if not reason.startswith('["invalid_regexp"'):
        return ""
    from warren.cli.ctl.policy_hints import pattern_hint

    _, pattern, (problem, position) = json.loads(reason)
    return pattern_hint(pattern, problem, position)


def require_node(api: Api, named: str | None) -> None:
    """Raise a Failure (69) unless the node that a verb is about answers.

    A verb that asks the wrong node, or none, must not sound as if all were well. So this comes
    before a verb's first question, within a time of its own, whatever `--timeout` allows the verb:

        who is at the address?    any answer of a management API will do; a process that was stopped
                                  accepts connections and never answers
        is the node there that    the node at the address passes the question on to it, so that a
        the verb is about?        member that is dead, or silent, is found out

    RabbitMQ's tools connect to the node itself, wait 7 s for it, and end with 69.
    """
    api.reach(ANSWER_S_MAX)
    if named is None:
        return
    asker = Api(api.target, PASSED_ON_S_MAX)
    try:
        _require_member(asker, named)
    finally:
        asker.close()


def _require_member(asker: Api, name: str) -> None:
    url = asker.target.url
    try:
        found: dict[str, Any] = asker.get("nodes", name, columns="name,running")
    except NotFound:
        names = ", ".join(str(node["name"]) for node in asker.get("nodes", columns="name"))
        reason = f"{url} knows no node '{name}'. Its nodes are: {names}"
        raise _unavailable(name, reason) from None
    except Refusal as silent:
        raise _unavailable(name, f"asked by {url}: {silent.reason}") from silent
    if not found["running"]:
        raise _unavailable(
            name,
            f"{url} has it as a member that is not running.\n"
            "Start it with 'warren server'; if it is gone for good: "
            f"'warrenctl forget_cluster_node {name}'",
        )


def _unavailable(name: str, reason: str) -> Failure:
    """RabbitMQ's words first: scripts look for them."""
    return Failure(
        f"Error: unable to perform an operation on node '{name}'. Please see diagnostics "
        f"information and suggestions below.\n\n{reason}"
    )
