"""Policies, through what clients see of them: set, changed and cleared while queues are in use."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError, UnroutableError

from acceptance.actions import drain, eventually, get, is_there, publish, ready_count, take
from acceptance.administration import Rule
from acceptance.conftest import Realm
from live_broker import connection_parameters

# A reference broker tells its queues of a policy and does not wait until they have heard of it.
HEARD_WITHIN_S = 0.3 if "WARREN_TEST_BROKER_HTTP" in os.environ else 0.0
LEASE_S = 3


@dataclass
class Ruled:
    """A vhost with a channel to it, whose policies the test sets."""

    realm: Realm
    channel: BlockingChannel

    def set(self, name: str, definition: dict[str, Any], **options: Any) -> None:
        self.realm.admin.set_policy(Rule(self.realm.vhost, name, definition, **options))
        time.sleep(HEARD_WITHIN_S)

    def clear(self, name: str, operator: bool = False) -> None:
        self.realm.admin.clear_policy(self.realm.vhost, name, operator)
        time.sleep(HEARD_WITHIN_S)

    def declare(self, name: str, **arguments: Any) -> str:
        dashed = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        self.channel.queue_declare(name, arguments=dashed)
        return name


@pytest.fixture
def ruled(realm: Realm) -> Iterator[Ruled]:
    user = realm.add_user("administrator")
    credentials = pika.PlainCredentials(user, f"secret of {user}")
    parameters = connection_parameters(
        realm.admin.address, virtual_host=realm.vhost, credentials=credentials
    )
    connection = pika.BlockingConnection(parameters)
    yield Ruled(realm, connection.channel())
    connection.close()


def test_4_30_a_time_to_live_is_for_messages_that_come_later(ruled: Ruled) -> None:
    queue = ruled.declare("q")
    publish(ruled.channel, queue, b"before")
    assert ready_count(ruled.channel, queue) == 1
    ruled.set("ttl", {"message-ttl": 50})
    time.sleep(0.2)
    assert drain(ruled.channel, queue) == [b"before"]
    publish(ruled.channel, queue, b"during")
    eventually(lambda: ready_count(ruled.channel, queue) == 0)
    ruled.clear("ttl")
    publish(ruled.channel, queue, b"after")
    time.sleep(0.2)
    assert drain(ruled.channel, queue) == [b"after"]


def test_4_30_an_expiring_message_waits_behind_one_that_does_not_expire(ruled: Ruled) -> None:
    queue = ruled.declare("q")
    publish(ruled.channel, queue, b"before")
    assert ready_count(ruled.channel, queue) == 1
    ruled.set("ttl", {"message-ttl": 50})
    publish(ruled.channel, queue, b"during")
    time.sleep(0.3)
    assert ready_count(ruled.channel, queue) == 2
    assert take(ruled.channel, queue).body == b"before"
    eventually(lambda: ready_count(ruled.channel, queue) == 0)


def test_the_shorter_time_to_live_holds(ruled: Ruled) -> None:
    """Of an argument and a policy the minimum."""
    ruled.set("ttl", {"message-ttl": 50})
    long = ruled.declare("long", message_ttl=60_000)
    publish(ruled.channel, long, b"gone soon")
    eventually(lambda: ready_count(ruled.channel, long) == 0)
    ruled.set("ttl", {"message-ttl": 60_000})
    short = ruled.declare("short", message_ttl=50)
    publish(ruled.channel, short, b"gone soon")
    eventually(lambda: ready_count(ruled.channel, short) == 0)


def test_t169_an_operator_policy_can_only_shorten(ruled: Ruled) -> None:
    """T169, 4-30: of both times to live the smaller."""
    queue = ruled.declare("q")
    ruled.set("user", {"message-ttl": 100_000})
    ruled.set("operator", {"message-ttl": 1}, operator=True)
    publish(ruled.channel, queue, b"gone soon")
    eventually(lambda: ready_count(ruled.channel, queue) == 0)
    ruled.clear("operator", operator=True)
    publish(ruled.channel, queue, b"stays")
    time.sleep(0.1)
    assert drain(ruled.channel, queue) == [b"stays"]


def test_t168_a_limit_trims_what_is_there_at_once(ruled: Ruled) -> None:
    """T168: the oldest go; a wider limit lets more in, none lets all in."""
    queue = ruled.declare("q")
    publish(ruled.channel, queue, b"1", b"2", b"3")
    ruled.set("limit", {"max-length": 1})
    assert drain(ruled.channel, queue) == [b"3"]
    ruled.set("limit", {"max-length": 2})
    publish(ruled.channel, queue, b"4", b"5", b"6")
    assert drain(ruled.channel, queue) == [b"5", b"6"]
    ruled.clear("limit")
    publish(ruled.channel, queue, b"7", b"8", b"9")
    assert drain(ruled.channel, queue) == [b"7", b"8", b"9"]


def test_a_limit_in_bytes_and_publishers_that_are_told(ruled: Ruled) -> None:
    queue = ruled.declare("q")
    ruled.set("limit", {"max-length-bytes": 4, "overflow": "reject-publish"})
    ruled.channel.confirm_delivery()
    ruled.channel.basic_publish("", queue, b"four")
    with pytest.raises(NackError):
        ruled.channel.basic_publish("", queue, b"more")
    ruled.clear("limit")
    ruled.channel.basic_publish("", queue, b"more")
    assert drain(ruled.channel, queue) == [b"four", b"more"]


def test_t135_a_policy_names_the_dead_letter_exchange(ruled: Ruled) -> None:
    """T135: it is for messages that die from now on."""
    queue, dead = ruled.declare("q"), ruled.declare("dead")
    publish(ruled.channel, queue, b"nowhere to go")
    ruled.channel.basic_reject(take(ruled.channel, queue).method.delivery_tag, requeue=False)
    target = {"dead-letter-exchange": "", "dead-letter-routing-key": dead}
    ruled.set("dlx", target, pattern="^q$")
    publish(ruled.channel, queue, b"dies")
    ruled.channel.basic_reject(take(ruled.channel, queue).method.delivery_tag, requeue=False)
    message = take(ruled.channel, dead)
    assert message.body == b"dies"
    assert message.properties.headers["x-death"][0]["reason"] == "rejected"
    ruled.clear("dlx")
    publish(ruled.channel, queue, b"nowhere again")
    ruled.channel.basic_reject(take(ruled.channel, queue).method.delivery_tag, requeue=False)
    time.sleep(0.1)
    assert get(ruled.channel, dead) is None


def test_t135_the_argument_is_stronger_than_the_policy(ruled: Ruled) -> None:
    dead, other = ruled.declare("dead"), ruled.declare("other")
    queue = ruled.declare("q", dead_letter_exchange="", dead_letter_routing_key=dead)
    ruled.set("dlx", {"dead-letter-exchange": "", "dead-letter-routing-key": other})
    publish(ruled.channel, queue, b"dies")
    ruled.channel.basic_reject(take(ruled.channel, queue).method.delivery_tag, requeue=False)
    assert take(ruled.channel, dead).body == b"dies"
    assert get(ruled.channel, other) is None


def test_a_policy_names_the_alternate_exchange(ruled: Ruled) -> None:
    channel = ruled.channel
    channel.exchange_declare("x", "fanout")
    channel.exchange_declare("spare", "fanout")
    queue = ruled.declare("q")
    channel.queue_bind(queue, "spare")
    channel.confirm_delivery()
    with pytest.raises(UnroutableError):
        channel.basic_publish("x", "k", b"nowhere", mandatory=True)
    ruled.set("ae", {"alternate-exchange": "spare"}, apply_to="exchanges", pattern="^x$")
    channel.basic_publish("x", "k", b"spared", mandatory=True)
    assert drain(channel, queue) == [b"spared"]
    ruled.clear("ae")
    with pytest.raises(UnroutableError):
        channel.basic_publish("x", "k", b"nowhere", mandatory=True)


def test_a_queue_nobody_uses_goes_when_a_policy_says_so(ruled: Ruled) -> None:
    ruled.declare("kept")
    ruled.declare("q")
    ruled.set("expiry", {"expires": 100}, pattern="^q$")
    connection = ruled.channel.connection
    eventually(lambda: not is_there(connection, "q"), pause_s=0.5)  # a look renews the lease
    assert is_there(connection, "kept")


def test_clearing_an_expiry_in_time_keeps_the_queue(ruled: Ruled) -> None:
    ruled.declare("q")
    ruled.set("expiry", {"expires": LEASE_S * 1_000})
    ruled.clear("expiry")
    time.sleep(LEASE_S + 0.5)
    assert is_there(ruled.channel.connection, "q")


def test_s15_a_queue_made_lazy_and_back_under_load_keeps_everything_in_order(ruled: Ruled) -> None:
    """S15, 4-32."""
    channel = ruled.channel
    channel.queue_declare("q", durable=True)
    persistent = pika.BasicProperties(delivery_mode=2)
    numbers = iter(range(10_000))
    for mode in ("lazy", "default", "lazy", "default"):
        for _ in range(300):
            channel.basic_publish("", "q", str(next(numbers)).encode(), persistent)
        ruled.realm.admin.set_policy(Rule(ruled.realm.vhost, "mode", {"queue-mode": mode}))
    last = next(numbers)
    eventually(lambda: ready_count(channel, "q") == last)
    assert drain(channel, "q") == [str(number).encode() for number in range(last)]


def test_4_34_the_strongest_policy_holds_alone(ruled: Ruled) -> None:
    """Policies are not merged: what only the weaker one sets is not set."""
    queue = ruled.declare("q")
    ruled.set("weak", {"max-length": 1, "message-ttl": 50})
    ruled.set("strong", {"max-length": 2}, priority=1)
    publish(ruled.channel, queue, b"1", b"2", b"3")
    time.sleep(0.2)
    assert drain(ruled.channel, queue) == [b"2", b"3"]
    ruled.clear("strong")
    publish(ruled.channel, queue, b"4")
    eventually(lambda: ready_count(ruled.channel, queue) == 0)


def test_4_33_a_key_that_classic_queues_do_not_have_keeps_the_policy_from_them(
    ruled: Ruled,
) -> None:
    queue = ruled.declare("q")
    ruled.set("p", {"max-length": 1, "delivery-limit": 3})
    publish(ruled.channel, queue, b"1", b"2")
    eventually(lambda: ready_count(ruled.channel, queue) == 2)


@pytest.mark.parametrize(
    ("options", "applies"),
    [
        ({"pattern": "ue"}, True),
        ({"pattern": "^ue"}, False),
        ({"pattern": "QUEUE"}, False),
        ({"pattern": "(?i)QUEUE"}, True),
        ({"apply_to": "queues"}, True),
        ({"apply_to": "exchanges"}, False),
    ],
)
def test_patterns_and_what_a_policy_is_for(
    ruled: Ruled, options: dict[str, str], applies: bool
) -> None:
    queue = ruled.declare("queue")
    ruled.set("p", {"max-length": 1}, **options)
    publish(ruled.channel, queue, b"1", b"2")
    eventually(lambda: ready_count(ruled.channel, queue) == (1 if applies else 2))


def test_4_09_a_policy_that_comes_and_goes_disturbs_nobody(ruled: Ruled) -> None:
    """4-09: declare, publish, get and delete while the policy changes, and every one succeeds."""
    admin, vhost, channel = ruled.realm.admin, ruled.realm.vhost, ruled.channel
    channel.confirm_delivery()
    for round_ in range(30):
        admin.set_policy(Rule(vhost, "p", {"ha-mode": "all", "queue-mode": "lazy"}))
        queue = ruled.declare(f"q{round_}")
        channel.basic_publish("", queue, b"m", mandatory=True)
        admin.clear_policy(vhost, "p")
        assert take(channel, queue).body == b"m"
        channel.queue_delete(queue)
