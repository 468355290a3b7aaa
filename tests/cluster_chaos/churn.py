"""Clients that change the topology: queues, exchanges, bindings; users and policies over HTTP."""

from __future__ import annotations

import urllib.error
from collections.abc import Callable
from typing import Any, Final

from cluster_chaos.clients import ChaosClient
from cluster_chaos.expectations import Thing
from cluster_chaos.talking import Talk
from cluster_chaos.world import ChaosNode

THINGS_MAX: Final = 25
LOCATORS: Final = ("min-masters", "client-local", "random")
TYPES: Final = ("direct", "fanout", "topic", "headers")
SHARED: Final = tuple(f"shared-{i}" for i in range(6))
HTTP_S_MAX: Final = 40.0


class Declarer(ChaosClient):
    """Has names of its own, so that it knows what must be there; and some shared with others."""

    pause_s = 0.02

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._number = 0
        self._queues: dict[str, dict[str, Any]] = {}
        self._exchanges: dict[str, dict[str, Any]] = {}
        self._bindings: dict[Thing, None] = {}

    def step(self, talk: Talk) -> None:
        kinds: list[tuple[Callable[[Talk], None], int]] = [
            (self._declare_queue, 6),
            (self._declare_exchange, 4),
            (self._bind, 8),
            (self._unbind, 3),
            (self._delete_queue, 4),
            (self._delete_exchange, 2),
            (self._declare_again, 3),
            (self._use_passing, 3),
            (self._quarrel, 4),
        ]
        works, weights = zip(*kinds, strict=True)
        self.chance.choices(works, weights)[0](talk)

    def _new_name(self) -> str:
        self._number += 1
        return f"{self.name}-{self._number}"

    # Each forgets a name before it asks, and takes it up again when it is answered.

    def _declare_queue(self, talk: Talk) -> None:
        if len(self._queues) >= THINGS_MAX:
            return self._delete_queue(talk)
        name = self._new_name()
        arguments: dict[str, Any] = {"x-queue-master-locator": self.chance.choice(LOCATORS)}
        if self.chance.random() < 0.2:
            arguments["x-max-priority"] = 3
        fields = {"queue": name, "durable": True, "arguments": arguments}
        with self.expected.changing([("queue", name)], True):
            talk.ask("queue.declare", **fields)
        self._queues[name] = fields
        return None

    def _declare_exchange(self, talk: Talk) -> None:
        if len(self._exchanges) >= THINGS_MAX:
            return self._delete_exchange(talk)
        name = self._new_name()
        fields = {
            "exchange": name,
            "type": self.chance.choice(TYPES),
            "durable": self.chance.random() < 0.7,
        }
        with self.expected.changing([("exchange", name)], True):
            talk.ask("exchange.declare", **fields)
        self._exchanges[name] = fields
        return None

    def _bind(self, talk: Talk) -> None:
        if not self._exchanges or not self._queues:
            return
        source = self.chance.choice([*self._exchanges, "amq.topic"])
        key = f"k{self.chance.randrange(4)}"
        kind = "queue" if self.chance.random() < 0.7 else "exchange"
        destination = self.chance.choice([*(self._queues if kind == "queue" else self._exchanges)])
        binding = ("binding", source, kind, destination, key)
        self._bindings.pop(binding, None)
        with self.expected.changing([binding], True):
            if kind == "queue":
                talk.ask("queue.bind", queue=destination, exchange=source, routing_key=key)
            else:
                talk.ask("exchange.bind", destination=destination, source=source, routing_key=key)
        self._bindings[binding] = None

    def _unbind(self, talk: Talk) -> None:
        if not self._bindings:
            return
        binding = self.chance.choice([*self._bindings])
        _, source, kind, destination, key = binding
        del self._bindings[binding]
        with self.expected.changing([binding], False):
            if kind == "queue":
                talk.ask("queue.unbind", queue=destination, exchange=source, routing_key=key)
            else:
                talk.ask("exchange.unbind", destination=destination, source=source, routing_key=key)

    def _delete_queue(self, talk: Talk) -> None:
        if not self._queues:
            return
        name = self.chance.choice([*self._queues])
        del self._queues[name]
        bindings = self._take_bindings(lambda _, kind, to: (kind, to) == ("queue", name))
        with self.expected.changing([("queue", name), *bindings], False):
            talk.ask("queue.delete", queue=name)

    def _delete_exchange(self, talk: Talk) -> None:
        if not self._exchanges:
            return
        name = self.chance.choice([*self._exchanges])
        del self._exchanges[name]
        bindings = self._take_bindings(
            lambda source, kind, to: source == name or (kind, to) == ("exchange", name)
        )
        with self.expected.changing([("exchange", name), *bindings], False):
            talk.ask("exchange.delete", exchange=name)

    def _take_bindings(self, is_meant: Callable[[str, str, str], bool]) -> list[Thing]:
        taken = [binding for binding in self._bindings if is_meant(*binding[1:4])]
        for binding in taken:
            del self._bindings[binding]
        return taken

    # Of which nothing is expected but an answer.

    def _declare_again(self, talk: Talk) -> None:
        if self._exchanges:
            talk.ask("exchange.declare", **self.chance.choice([*self._exchanges.values()]))
        if self._queues:
            talk.ask("queue.declare", **self.chance.choice([*self._queues.values()]))

    def _use_passing(self, talk: Talk) -> None:
        """What goes with a connection, a consumer or a node."""
        kind = self.chance.choice(["exclusive", "auto_delete", "transient"])
        fields = {} if kind == "transient" else {kind: True}
        queue = talk.ask("queue.declare", queue=f"passing-{self._new_name()}", **fields).queue
        exchange = f"passing-{queue}"
        talk.ask("exchange.declare", exchange=exchange, type="fanout", auto_delete=True)
        talk.ask("queue.bind", queue=queue, exchange=exchange)
        if self.chance.random() < 0.7:
            talk.ask("queue.delete", queue=queue)

    def _quarrel(self, talk: Talk) -> None:
        """Over names that others declare and delete too: who wins is open, but all must agree."""
        name = self.chance.choice(SHARED)
        if self.chance.random() < 0.5:
            talk.ask("exchange.declare", exchange=name, type="fanout", durable=True)
            talk.ask("queue.declare", queue=name, durable=True)
        elif self.chance.random() < 0.5:
            talk.ask("queue.delete", queue=name)
        else:
            talk.ask("exchange.delete", exchange=name)


class Administrator(ChaosClient):
    """Users, permissions, policies and virtual hosts over HTTP, at any node."""

    pause_s = 0.1

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._number = 0
        self._there: dict[Thing, str] = {}

    def step(self, _talk: Talk) -> None:
        self.node = self.chance.choice(self.nodes)
        if len(self._there) > THINGS_MAX or (self._there and self.chance.random() < 0.3):
            thing = self.chance.choice([*self._there])
            path = self._there.pop(thing)
            with self.expected.changing([thing], False):
                self._request(self.node, "DELETE", path, None)
            return
        self._number += 1
        name = f"{self.name}-{self._number}"
        kind, path, body = self.chance.choice(_makings(name))
        with self.expected.changing([(kind, name)], True):
            self._request(self.node, "PUT", path, body)
        self._there[kind, name] = path

    @staticmethod
    def _request(node: ChaosNode, method: str, path: str, body: Any) -> None:
        try:
            node.ask(path, method, body, within_s=HTTP_S_MAX)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            raise ConnectionError(f"{method} {path}: {error.code} {text}") from None
        except TimeoutError:
            raise ConnectionError(f"{method} {path}: no answer in {HTTP_S_MAX:g} s") from None


def _makings(name: str) -> list[tuple[str, str, Any]]:
    policy = {"pattern": f"^{name}", "definition": {"max-length": 1000}, "apply-to": "queues"}
    return [
        ("user", f"/api/users/{name}", {"password": "p", "tags": ""}),
        ("policy", f"/api/policies/%2F/{name}", policy),
        ("vhost", f"/api/vhosts/{name}", {}),
    ]
