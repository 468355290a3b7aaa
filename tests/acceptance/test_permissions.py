"""Who may do what: permissions on queues and exchanges, and on topics."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from acceptance.administration import TopicGrant
from acceptance.conftest import Realm


class Operation(NamedTuple):
    """A method, its fields, and the least that permits it: patterns for configure, write, read."""

    method: str
    fields: dict[str, Any]
    permits: dict[str, str]


ALTERNATE = {"arguments": {"alternate-exchange": "ae"}}
DEAD_LETTER = {"arguments": {"x-dead-letter-exchange": "dlx"}}
MATRIX = {
    "exchange.declare": Operation(
        "exchange.declare", {"exchange": "new", "type": "direct"}, {"configure": "^new$"}
    ),
    "exchange.declare-alternate": Operation(
        "exchange.declare",
        {"exchange": "new", "type": "direct", **ALTERNATE},
        {"configure": "^new$", "write": "^ae$", "read": "^new$"},
    ),
    "exchange.delete": Operation("exchange.delete", {"exchange": "x1"}, {"configure": "^x1$"}),
    "queue.declare": Operation("queue.declare", {"queue": "new"}, {"configure": "^new$"}),
    "queue.declare-dead-letter": Operation(
        "queue.declare",
        {"queue": "new", **DEAD_LETTER},
        {"configure": "^new$", "write": "^dlx$", "read": "^new$"},
    ),
    "queue.delete": Operation("queue.delete", {"queue": "q1"}, {"configure": "^q1$"}),
    "exchange.bind": Operation(
        "exchange.bind", {"destination": "x2", "source": "x1"}, {"write": "^x2$", "read": "^x1$"}
    ),
    "exchange.unbind": Operation(
        "exchange.unbind", {"destination": "x2", "source": "x1"}, {"write": "^x2$", "read": "^x1$"}
    ),
    "queue.bind": Operation(
        "queue.bind", {"queue": "q1", "exchange": "x1"}, {"write": "^q1$", "read": "^x1$"}
    ),
    "queue.unbind": Operation(
        "queue.unbind", {"queue": "q1", "exchange": "x1"}, {"write": "^q1$", "read": "^x1$"}
    ),
    "basic.consume": Operation("basic.consume", {"queue": "q1"}, {"read": "^q1$"}),
    "queue.purge": Operation("queue.purge", {"queue": "q1"}, {"read": "^q1$"}),
}
FORBIDDEN = "^$"
NOTHING = {"configure": FORBIDDEN, "write": FORBIDDEN, "read": FORBIDDEN}


@pytest.fixture
def furnished(realm: Realm) -> Realm:
    """A vhost with the queues and exchanges the operations work on."""
    owner = realm.open(realm.add_user())
    for exchange in ("x1", "x2", "ae", "dlx"):
        owner.call(1, "exchange.declare", exchange=exchange, type="topic")
    owner.call(1, "queue.declare", queue="q1")
    return realm


@pytest.mark.parametrize("operation", MATRIX.values(), ids=MATRIX.keys())
def test_what_is_needed_is_enough(furnished: Realm, operation: Operation) -> None:
    """T151: with exactly the permissions of its row every operation works."""
    client = furnished.open(furnished.add_user(**{**NOTHING, **operation.permits}))
    client.call(1, operation.method, **operation.fields)


@pytest.mark.parametrize(
    ("operation", "missing"),
    [
        pytest.param(operation, missing, id=f"{name}-without-{missing}")
        for name, operation in MATRIX.items()
        for missing in operation.permits
    ],
)
def test_nothing_less_will_do(furnished: Realm, operation: Operation, missing: str) -> None:
    """T151: without any one of them it is a 403 that names the user."""
    grant = {**NOTHING, **operation.permits, missing: FORBIDDEN}
    user = furnished.add_user(**grant)
    client = furnished.open(user)
    client.send(1, operation.method, **operation.fields)
    text = client.expect_channel_close(1, 403).reply_text
    assert text.startswith("ACCESS_REFUSED - access to ")
    assert text.endswith(f"in vhost '{furnished.vhost}' refused for user '{user}'")


def test_the_refusal_names_the_thing(furnished: Realm) -> None:
    """T151: access to queue 'q1' in vhost ... refused for user ..."""
    user = furnished.add_user(**NOTHING)
    client = furnished.open(user)
    client.send(1, "queue.purge", queue="q1")
    assert client.expect_channel_close(1, 403).reply_text == (
        f"ACCESS_REFUSED - access to queue 'q1' in vhost '{furnished.vhost}' "
        f"refused for user '{user}'"
    )


def test_getting_needs_read(furnished: Realm) -> None:
    """T151: basic.get as consume."""
    allowed = furnished.open(furnished.add_user(**{**NOTHING, "read": "^q1$"}))
    assert allowed.get(1, "q1") is None
    refused = furnished.open(furnished.add_user(**{**NOTHING, "configure": ".*", "write": ".*"}))
    refused.send(1, "basic.get", queue="q1")
    refused.expect_channel_close(1, 403)


def test_publishing_needs_write(furnished: Realm) -> None:
    """T151: on the exchange; the refusal comes as an asynchronous channel.close."""
    allowed = furnished.open(furnished.add_user(**{**NOTHING, "write": "^x1$"}))
    allowed.call(1, "confirm.select")
    allowed.publish(1, b"", exchange="x1")
    allowed.expect(1, "basic.ack")
    refused = furnished.open(furnished.add_user(**{**NOTHING, "configure": ".*", "read": ".*"}))
    refused.publish(1, b"", exchange="x1")
    close = refused.expect_channel_close(1, 403)
    assert (close.class_id, close.method_id) == (60, 40)


def test_looking_needs_nothing(furnished: Realm) -> None:
    """T151: passive declares are free."""
    client = furnished.open(furnished.add_user(**NOTHING))
    client.call(1, "queue.declare", queue="q1", passive=True)
    client.call(1, "exchange.declare", exchange="x1", passive=True)


def test_an_empty_pattern_permits_nothing(furnished: Realm) -> None:
    """T151: "" is ^$ and not everything."""
    client = furnished.open(furnished.add_user(configure="", write="", read=""))
    client.send(1, "queue.purge", queue="q1")
    client.expect_channel_close(1, 403)


def test_a_pattern_is_searched_not_matched(furnished: Realm) -> None:
    """T151: unanchored: "1" permits q1."""
    client = furnished.open(furnished.add_user(**{**NOTHING, "read": "1"}))
    client.call(1, "queue.purge", queue="q1")


def test_a_server_named_queue_needs_configure_on_its_name(realm: Realm) -> None:
    """T151: amq.gen-... is a name like any other."""
    allowed = realm.open(realm.add_user(**{**NOTHING, "configure": "^amq\\.gen"}))
    allowed.call(1, "queue.declare", exclusive=True)
    refused = realm.open(realm.add_user(**{**NOTHING, "configure": "^mine"}))
    refused.send(1, "queue.declare", exclusive=True)
    refused.expect_channel_close(1, 403)


def test_the_default_exchange_is_checked_by_its_name(furnished: Realm) -> None:
    """T152: write on amq.default lets one publish to "", and nothing else does."""
    allowed = furnished.open(
        furnished.add_user(**{**NOTHING, "write": "^amq\\.default$", "read": "^q1$"})
    )
    allowed.publish(1, b"through", routing_key="q1")
    message = allowed.get(1, "q1")
    assert message is not None
    assert message.body == b"through"
    user = furnished.add_user(**{**NOTHING, "write": "^q1$"})
    refused = furnished.open(user)
    refused.publish(1, b"no", routing_key="q1")
    assert refused.expect_channel_close(1, 403).reply_text == (
        f"ACCESS_REFUSED - access to exchange 'amq.default' in vhost '{furnished.vhost}' "
        f"refused for user '{user}'"
    )


def test_topics_are_permitted_by_routing_key(furnished: Realm) -> None:
    """T153: write "^a" lets a.b through and not b.a."""
    user = furnished.add_user()
    furnished.admin.grant_topics(TopicGrant(user, furnished.vhost, "x1", write="^a", read="^a"))
    client = furnished.open(user, channels=2)
    client.call(1, "confirm.select")
    client.publish(1, b"", exchange="x1", routing_key="a.b")
    client.expect(1, "basic.ack")
    client.publish(1, b"", exchange="x1", routing_key="b.a")
    text = client.expect_channel_close(1, 403).reply_text
    assert f"access to topic 'b.a' in exchange 'x1' in vhost '{furnished.vhost}'" in text
    client.publish(2, b"", exchange="x2", routing_key="b.a")
    client.call(2, "queue.declare", queue="q1", passive=True)


def test_topics_are_permitted_at_bind(furnished: Realm) -> None:
    """T153: read of the pattern, on binding a queue to a topic exchange."""
    user = furnished.add_user()
    furnished.admin.grant_topics(TopicGrant(user, furnished.vhost, "x1", read="^a"))
    client = furnished.open(user)
    client.call(1, "queue.bind", queue="q1", exchange="x1", routing_key="a.#")
    client.send(1, "queue.bind", queue="q1", exchange="x1", routing_key="b.#")
    client.expect_channel_close(1, 403)


def test_topic_permissions_know_who_is_asking(furnished: Realm) -> None:
    """T153: {username} and {vhost} stand for what they are."""
    user = furnished.add_user()
    pattern = "^{vhost}\\.{username}$"
    furnished.admin.grant_topics(TopicGrant(user, furnished.vhost, "x1", write=pattern))
    client = furnished.open(user)
    client.call(1, "confirm.select")
    client.publish(1, b"", exchange="x1", routing_key=f"{furnished.vhost}.{user}")
    client.expect(1, "basic.ack")
    client.publish(1, b"", exchange="x1", routing_key=f"{furnished.vhost}.somebody")
    client.expect_channel_close(1, 403)


def test_declaring_a_dead_letter_exchange_needs_write_on_it(furnished: Realm) -> None:
    """T137: without it, 403 that names the dead letter exchange."""
    client = furnished.open(furnished.add_user(write="^q"))
    client.send(1, "queue.declare", queue="q2", **DEAD_LETTER)
    text = client.expect_channel_close(1, 403).reply_text
    assert "access to exchange 'dlx'" in text


def test_dead_letters_ask_nobody(furnished: Realm) -> None:
    """T137: publishing a dead letter is the broker's own doing, whoever rejected the message."""
    owner = furnished.open(furnished.add_user())
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q1"}
    owner.call(1, "queue.declare", queue="mortal", arguments=arguments)
    owner.publish(1, b"dead", routing_key="mortal")
    owner.call(1, "queue.declare", queue="mortal", passive=True)
    reader = furnished.open(furnished.add_user(**{**NOTHING, "read": ".*"}))
    held = reader.get(1, "mortal", no_ack=False)
    assert held is not None
    reader.send(1, "basic.reject", delivery_tag=held.method.delivery_tag)
    reader.call(1, "basic.consume", queue="q1", no_ack=True)
    assert reader.expect_content(1, "basic.deliver").body == b"dead"
