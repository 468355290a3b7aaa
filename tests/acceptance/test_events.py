"""`amq.rabbitmq.event`: what happens in the broker, as messages without a body."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from acceptance.actions import POLL_S, WAIT_S
from acceptance.administration import Administration, Rule, TopicGrant
from acceptance.conftest import Realm
from live_broker import connection_parameters


@dataclass
class Watched:
    """A vhost to do things in, and a queue of the default vhost that hears of them."""

    realm: Realm
    user: str
    ears: BlockingChannel
    channel: BlockingChannel
    heard: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def event(self, kind: str, /, **about: Any) -> dict[str, Any]:
        """The next event of that kind that has those properties, whatever came before it."""
        deadline = time.monotonic() + WAIT_S
        while True:
            for place, (key, properties) in enumerate(self.heard):
                if key == kind and about.items() <= properties.items():
                    del self.heard[place]
                    return properties
            assert time.monotonic() < deadline, (kind, about, self.heard)
            method, properties, body = self.ears.basic_get("", auto_ack=True)
            if method is None:
                time.sleep(POLL_S)
                continue
            assert body == b""
            assert properties.delivery_mode == 2
            assert properties.headers["timestamp_in_ms"] // 1000 == properties.timestamp
            self.heard.append((method.routing_key, properties.headers))


def without_time(properties: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in properties.items() if name != "timestamp_in_ms"}


def open_connection(realm: Realm, user: str, password: str | None = None) -> BlockingConnection:
    credentials = pika.PlainCredentials(user, password or f"secret of {user}")
    return pika.BlockingConnection(
        connection_parameters(
            realm.admin.address,
            virtual_host=realm.vhost,
            credentials=credentials,
            client_properties={"connection_name": "a name"},
        )
    )


@pytest.fixture
def watched(realm: Realm, administration: Administration) -> Iterator[Watched]:
    user = realm.add_user("administrator")
    listener = pika.BlockingConnection(connection_parameters(administration.address))
    ears = listener.channel()
    queue = ears.queue_declare("", exclusive=True).method.queue
    ears.queue_bind(queue, "amq.rabbitmq.event", "#")
    connection = open_connection(realm, user)
    yield Watched(realm, user, ears, connection.channel())
    for opened in (connection, listener):
        with contextlib.suppress(pika.exceptions.AMQPError):
            opened.close()


def test_queues(watched: Watched) -> None:
    channel, vhost = watched.channel, watched.realm.vhost
    channel.queue_declare("q", arguments={"x-max-length": 5})
    assert without_time(watched.event("queue.created", vhost=vhost)) == {
        "user_who_performed_action": watched.user,
        "exclusive": False,
        "owner_pid": "",
        "arguments": ['{<<"x-max-length">>,signedint,5}'],
        "auto_delete": False,
        "durable": False,
        "name": "q",
        "vhost": vhost,
    }
    channel.queue_delete("q")
    assert without_time(watched.event("queue.deleted", vhost=vhost)) == {
        "user_who_performed_action": watched.user,
        "name": "q",
        "vhost": vhost,
    }


def test_exchanges_and_bindings(watched: Watched) -> None:
    channel, vhost = watched.channel, watched.realm.vhost
    channel.exchange_declare("x", "topic")
    assert without_time(watched.event("exchange.created", vhost=vhost, name="x")) == {
        "user_who_performed_action": watched.user,
        "policy": "",
        "arguments": [],
        "internal": False,
        "auto_delete": False,
        "durable": False,
        "type": "topic",
        "name": "x",
        "vhost": vhost,
    }
    channel.queue_declare("q")
    binding = {
        "vhost": vhost,
        "arguments": ['{<<"k">>,signedint,1}'],
        "routing_key": "a.b",
        "destination_kind": "queue",
        "destination_name": "q",
        "source_kind": "exchange",
        "source_name": "x",
    }
    channel.queue_bind("q", "x", "a.b", {"k": 1})
    by_user = {**binding, "user_who_performed_action": watched.user}
    assert without_time(watched.event("binding.created", vhost=vhost)) == by_user
    channel.queue_unbind("q", "x", "a.b", {"k": 1})
    assert without_time(watched.event("binding.deleted", vhost=vhost)) == by_user
    channel.queue_bind("q", "x", "a.b", {"k": 1})
    channel.queue_delete("q")
    gone = watched.event("binding.deleted", vhost=vhost)
    assert without_time(gone) == {**binding, "user_who_performed_action": "rmq-internal"}
    channel.exchange_delete("x")
    assert watched.event("exchange.deleted", vhost=vhost)["name"] == "x"


def test_policies_and_parameters(watched: Watched) -> None:
    admin, vhost = watched.realm.admin, watched.realm.vhost
    terms = {
        "pattern": "x",
        "definition": {"max-length": 1},
        "priority": 2,
        "apply-to": "queues",
    }
    rule = Rule(vhost, "p", {"max-length": 1}, "x", 2, "queues")
    admin.set_policy(rule)
    told = watched.event("policy.set", vhost=vhost)
    assert terms.items() <= told.items()
    assert told["name"] == "p"
    admin.clear_policy(vhost, "p")
    assert watched.event("policy.cleared", vhost=vhost)["name"] == "p"
    admin.set_policy(Rule(vhost, "op", {"max-length": 1}, "x", 2, "queues", operator=True))
    told = watched.event("parameter.set", vhost=vhost, component="operator_policy")
    assert told["value"] == terms
    admin.clear_policy(vhost, "op", operator=True)
    assert watched.event("parameter.cleared", vhost=vhost)["name"] == "op"
    assert watched.event("operator.policy.cleared", vhost=vhost)["name"] == "op"


def test_users_and_permissions(watched: Watched) -> None:
    realm = watched.realm
    user = realm.add_user("monitoring", configure="^c", write="^w", read="^r")
    watched.event("user.created", name=user)
    assert watched.event("user.tags.set", name=user)["tags"] == ["monitoring"]
    told = watched.event("permission.created", user=user, vhost=realm.vhost)
    assert (told["configure"], told["write"], told["read"]) == ("^c", "^w", "^r")
    realm.admin.grant_topics(TopicGrant(user, realm.vhost, "amq.topic", write="^w"))
    told = watched.event("topic.permission.created", user=user, vhost=realm.vhost)
    assert (told["exchange"], told["write"], told["read"]) == ("amq.topic", "^w", ".*")
    realm.admin.limit_user(user, "max-channels", 10)
    assert watched.event("user.limits.set", username=user)["max-channels"] == 10
    realm.admin.delete_user(user)
    realm.users.remove(user)
    watched.event("user.deleted", name=user)


def test_virtual_hosts(watched: Watched) -> None:
    admin, name = watched.realm.admin, f"{watched.realm.vhost}-other"
    admin.add_vhost(name)
    told = watched.event("vhost.created", name=name)
    assert (told["tracing"], told["description"], told["tags"]) == (False, "", [])
    assert list(told["cluster_state"].values()) == ["running"]
    assert watched.event("exchange.created", vhost=name, name="amq.topic")["type"] == "topic"
    admin.trace(name, True)
    watched.event("vhost.updated", name=name)
    admin.limit_vhost(name, "max-queues", 5)
    told = watched.event("parameter.set", vhost=name, component="vhost-limits")
    assert told["value"] == {"max-queues": 5}
    watched.event("vhost.limits.set", **{"max-queues": 5})
    admin.delete_vhost(name)
    watched.event("vhost.deleted", name=name)


def test_connections_and_channels(watched: Watched) -> None:
    realm, user = watched.realm, watched.user
    connection = open_connection(realm, user)
    told = watched.event("connection.created", user=user, user_provided_name="a name")
    told = watched.event("connection.created", user=user, user_provided_name="a name")
    name, pid = told["name"], told["pid"]
    assert (told["peer_host"], told["host"]) == ("{127,0,0,1}", "{127,0,0,1}")
    assert name == f"127.0.0.1:{told['peer_port']} -> 127.0.0.1:{told['port']}"
    assert (told["vhost"], told["protocol"]) == (realm.vhost, "{0,9,1}")
    assert (told["auth_mechanism"], told["ssl"], told["type"]) == ("PLAIN", False, "network")
    assert told["user_who_performed_action"] == user
    assert '{<<"connection_name">>,longstr,<<"a name">>}' in told["client_properties"]
    connection.channel(7).close()
    channel = watched.event("channel.created", connection=pid)
    assert channel["name"] == f"{name} (7)"
    assert (channel["number"], channel["vhost"], channel["user"]) == (7, realm.vhost, user)
    assert without_time(watched.event("channel.closed", pid=channel["pid"])) == {
        "pid": channel["pid"],
        "user_who_performed_action": user,
    }
    connection.close()
    closed = watched.event("connection.closed", pid=pid)
    assert (closed["name"], closed["user_provided_name"]) == (name, "a name")


def test_consumers(watched: Watched) -> None:
    channel, vhost = watched.channel, watched.realm.vhost
    channel.queue_declare("q")
    channel.basic_qos(prefetch_count=5)
    channel.basic_consume("q", lambda *_: None, consumer_tag="t", arguments={"x-priority": 4})
    created = without_time(watched.event("consumer.created", vhost=vhost))
    assert created.pop("channel")
    assert created == {
        "user_who_performed_action": watched.user,
        "arguments": ['{<<"x-priority">>,signedint,4}'],
        "prefetch_count": 5,
        "queue": "q",
        "vhost": vhost,
        "ack_required": True,
        "exclusive": False,
        "consumer_tag": "t",
    }
    channel.basic_cancel("t")
    deleted = watched.event("consumer.deleted", vhost=vhost)
    assert (deleted["queue"], deleted["consumer_tag"]) == ("q", "t")
    channel.basic_consume("q", lambda *_: None, consumer_tag="of a queue that goes")
    channel.queue_delete("q")
    watched.event("consumer.deleted", vhost=vhost, consumer_tag="of a queue that goes")


def test_logins(watched: Watched) -> None:
    user = watched.user
    told = watched.event("user.authentication.success", name=user)
    assert (told["auth_mechanism"], told["connection_type"]) == ("PLAIN", "network")
    assert "user_who_performed_action" not in told
    with pytest.raises(pika.exceptions.AMQPError):
        open_connection(watched.realm, user, "not the password")
    told = watched.event("user.authentication.failure", name=user)
    assert bytes(told["error"]).decode() == f"user '{user}' - invalid credentials"


def test_nobody_is_told_twice_and_a_key_chooses(watched: Watched) -> None:
    ears = watched.ears
    ears.queue_unbind("", "amq.rabbitmq.event", "#")
    ears.queue_bind("", "amq.rabbitmq.event", "queue.*")
    ears.queue_purge("")
    watched.channel.exchange_declare("unheard", "fanout")
    watched.channel.queue_declare("heard")
    watched.channel.queue_declare("heard")
    watched.channel.queue_delete("heard")
    watched.event("queue.deleted", vhost=watched.realm.vhost)
    ours = [key for key, told in watched.heard if told.get("vhost") == watched.realm.vhost]
    assert ours == ["queue.created"]
