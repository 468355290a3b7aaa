"""Users, vhosts, permissions, limits and policies, set the way the broker under test allows.

Warren has no outside interface for them yet, so the tests that need them run a node in a thread of
their own and call its administrator. A reference broker is asked over its HTTP API, at
`WARREN_TEST_BROKER_HTTP=host:port`. Tests see only the `Administration` both are.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import threading
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

from broker_process import Address

DONE_WITHIN_S: Final = 60.0


@dataclass(frozen=True)
class Grant:
    """What a user may do in a vhost: three patterns."""

    user: str
    vhost: str
    configure: str = ".*"
    write: str = ".*"
    read: str = ".*"


@dataclass(frozen=True)
class TopicGrant:
    user: str
    vhost: str
    exchange: str
    write: str = ".*"
    read: str = ".*"


@dataclass(frozen=True)
class Rule:
    """A policy, or an operator policy."""

    vhost: str
    name: str
    definition: Mapping[str, Any]
    pattern: str = ""
    priority: int = 0
    apply_to: str = "all"
    operator: bool = False


class Administration(Protocol):
    address: Address

    def add_user(self, name: str, password: str, tags: Iterable[str] = ()) -> None: ...

    def add_user_with_hash(self, name: str, password_hash: str) -> None: ...

    def delete_user(self, name: str) -> None: ...

    def add_vhost(self, name: str) -> None: ...

    def delete_vhost(self, name: str) -> None: ...

    def grant(self, grant: Grant) -> None: ...

    def grant_topics(self, grant: TopicGrant) -> None: ...

    def limit_vhost(self, name: str, limit: str, value: int) -> None: ...

    def limit_user(self, name: str, limit: str, value: int) -> None: ...

    def set_policy(self, rule: Rule) -> None: ...

    def clear_policy(self, vhost: str, name: str, operator: bool = False) -> None: ...

    def trace(self, vhost: str, is_on: bool) -> None: ...

    def stop(self) -> None: ...


class InProcessAdministration:
    """A Warren node in a thread with a loop of its own."""

    def __init__(self, data_dir: Path) -> None:
        from warren.config.settings import Config
        from warren.config.values import Endpoint
        from warren.server.node import Node

        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="broker", daemon=True)
        self._thread.start()
        config = Config(data_dir=data_dir, tcp_listeners=(Endpoint("127.0.0.1", 0),), http_port=0)
        self._node = self._run(_make_node(Node, config))
        self._run(self._node.start())
        endpoint = self._node.amqp_endpoints[0]
        self.address = Address(endpoint.host, endpoint.port)
        self._admin = self._node.broker.admin

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DONE_WITHIN_S)

    def add_user(self, name: str, password: str, tags: Iterable[str] = ()) -> None:
        self._run(self._admin.add_user(name, password, tags))

    def add_user_with_hash(self, name: str, password_hash: str) -> None:
        from warren.auth.users import User

        self._run(self._admin.put_user(User(name, password_hash)))

    def delete_user(self, name: str) -> None:
        self._run(self._admin.delete_user(name))

    def add_vhost(self, name: str) -> None:
        self._run(self._admin.add_vhost(name))

    def delete_vhost(self, name: str) -> None:
        self._run(self._admin.delete_vhost(name))

    def grant(self, grant: Grant) -> None:
        from warren.auth.permissions import Permission

        row = Permission(grant.user, grant.vhost, grant.configure, grant.write, grant.read)
        self._run(self._admin.set_permissions(row))

    def grant_topics(self, grant: TopicGrant) -> None:
        from warren.auth.permissions import TopicPermission

        row = TopicPermission(grant.user, grant.vhost, grant.exchange, grant.write, grant.read)
        self._run(self._admin.set_topic_permissions(row))

    def limit_vhost(self, name: str, limit: str, value: int) -> None:
        self._run(self._admin.set_vhost_limits(name, {limit: value}))

    def limit_user(self, name: str, limit: str, value: int) -> None:
        self._run(self._admin.set_user_limits(name, {limit: value}))

    def set_policy(self, rule: Rule) -> None:
        from warren.model.records import Policy

        policy = Policy(
            rule.vhost, rule.name, rule.pattern, rule.definition, rule.priority, rule.apply_to
        )
        self._run(self._node.broker.policies.set(policy, rule.operator))

    def clear_policy(self, vhost: str, name: str, operator: bool = False) -> None:
        self._run(self._node.broker.policies.clear(vhost, name, operator))

    def trace(self, vhost: str, is_on: bool) -> None:
        self._run(self._admin.replace_vhost(vhost, lambda old: replace(old, tracing=is_on)))

    def stop(self) -> None:
        self._run(self._node.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DONE_WITHIN_S)
        self._loop.close()


async def _make_node(node: Any, config: Any) -> Any:
    """On the loop, since a node's timers need to know it."""
    return node(config)


class HttpAdministration:
    """The management API of RabbitMQ, as far as the tests need it."""

    def __init__(self, address: Address, http_address: str) -> None:
        self.address = address
        self._http_address = http_address

    def _call(self, method: str, path: str, body: object = None) -> None:
        connection = http.client.HTTPConnection(self._http_address, timeout=DONE_WITHIN_S)
        credentials = base64.b64encode(b"guest:guest").decode()
        headers = {"Authorization": f"Basic {credentials}", "Content-Type": "application/json"}
        connection.request(method, f"/api/{path}", json.dumps(body), headers)
        answer = connection.getresponse()
        assert answer.status in {200, 201, 204}, (path, answer.status, answer.read())
        connection.close()

    def add_user(self, name: str, password: str, tags: Iterable[str] = ()) -> None:
        self._call("PUT", f"users/{name}", {"password": password, "tags": ",".join(tags)})

    def add_user_with_hash(self, name: str, password_hash: str) -> None:
        self._call("PUT", f"users/{name}", {"password_hash": password_hash, "tags": ""})

    def delete_user(self, name: str) -> None:
        self._call("DELETE", f"users/{name}")

    def add_vhost(self, name: str) -> None:
        self._call("PUT", f"vhosts/{quote(name, safe='')}")

    def delete_vhost(self, name: str) -> None:
        self._call("DELETE", f"vhosts/{quote(name, safe='')}")

    def grant(self, grant: Grant) -> None:
        body = {"configure": grant.configure, "write": grant.write, "read": grant.read}
        self._call("PUT", f"permissions/{quote(grant.vhost, safe='')}/{grant.user}", body)

    def grant_topics(self, grant: TopicGrant) -> None:
        body = {"exchange": grant.exchange, "write": grant.write, "read": grant.read}
        self._call("PUT", f"topic-permissions/{quote(grant.vhost, safe='')}/{grant.user}", body)

    def limit_vhost(self, name: str, limit: str, value: int) -> None:
        self._call("PUT", f"vhost-limits/{quote(name, safe='')}/{limit}", {"value": value})

    def limit_user(self, name: str, limit: str, value: int) -> None:
        self._call("PUT", f"user-limits/{name}/{limit}", {"value": value})

    def set_policy(self, rule: Rule) -> None:
        family = "operator-policies" if rule.operator else "policies"
        body = {
            "pattern": rule.pattern,
            "definition": rule.definition,
            "priority": rule.priority,
            "apply-to": rule.apply_to,
        }
        self._call("PUT", f"{family}/{quote(rule.vhost, safe='')}/{rule.name}", body)

    def clear_policy(self, vhost: str, name: str, operator: bool = False) -> None:
        family = "operator-policies" if operator else "policies"
        self._call("DELETE", f"{family}/{quote(vhost, safe='')}/{name}")

    def trace(self, vhost: str, is_on: bool) -> None:
        self._call("PUT", f"vhosts/{quote(vhost, safe='')}", {"tracing": is_on})

    def stop(self) -> None:
        """Not ours to stop."""
