"""Users that an HTTP service knows: logins, permissions, and a service that is down."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from auth_backends.conftest import BackedBroker, Start
from auth_backends.http_service import ALLOW, DENY, Asked, AuthService


@pytest.fixture(scope="module")
def broker(start: Start, service: AuthService) -> BackedBroker:
    chain = "auth_backends.1 = http\nauth_backends.2 = internal\n"
    return start(chain + service.settings())


@pytest.fixture(autouse=True)
def _known_users(service: AuthService) -> Iterator[None]:
    service.users = {"ann": ("apple", "management policymaker"), "bob": ("pear", "")}
    service.decide = lambda kind, asked: ALLOW
    service.status = 200
    service.asked.clear()
    yield
    service.status = 200


def test_a_user_of_the_service_declares_publishes_and_consumes(
    broker: BackedBroker, service: AuthService
) -> None:
    with broker.connect("ann", "apple") as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.confirm_delivery()
        for number in range(20):
            channel.basic_publish("", queue, str(number).encode())
        bodies = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(20)]
        assert bodies == [str(number).encode() for number in range(20)]
    assert service.questions("user") == [{"username": "ann", "password": "apple"}]
    tags = "management policymaker"
    assert service.questions("vhost") == [
        {"username": "ann", "vhost": "/", "ip": "127.0.0.1", "tags": tags}
    ]
    asked = {"username": "ann", "vhost": "/", "tags": tags}
    assert service.questions("resource") == [
        {**asked, "resource": "queue", "name": queue, "permission": "configure"},
        {**asked, "resource": "exchange", "name": "amq.default", "permission": "write"},
        {**asked, "resource": "queue", "name": queue, "permission": "read"},
    ]


def test_a_wrong_password_is_refused_and_the_next_backend_is_asked(broker: BackedBroker) -> None:
    refusal = broker.refusal("ann", "pear")
    assert "(403) 'ACCESS_REFUSED - Login was refused using authentication mechanism" in refusal
    broker.await_line("connection refused", "user 'ann' - invalid credentials")
    with broker.connect("guest", "guest") as connection:  # an internal user
        assert connection.channel().is_open


def test_what_the_service_denies_is_refused_with_rabbitmqs_words(
    broker: BackedBroker, service: AuthService
) -> None:
    def decide(kind: str, asked: Asked) -> str:
        return DENY if asked.get("name") == "theirs" and asked["permission"] == "write" else ALLOW

    service.decide = decide
    with broker.connect("bob", "pear") as connection:
        channel = connection.channel()
        channel.exchange_declare("theirs", "fanout", auto_delete=True)
        channel.queue_declare("bobs", exclusive=True)
        channel.queue_bind("bobs", "theirs")
        channel.basic_publish("theirs", "key", b"refused")
        with pytest.raises(ChannelClosedByBroker) as caught:
            channel.queue_declare("bobs", passive=True)
        assert caught.value.args == (
            403,
            "ACCESS_REFUSED - access to exchange 'theirs' in vhost '/' refused for user 'bob'",
        )


def test_topics_are_asked_for_with_their_routing_key(
    broker: BackedBroker, service: AuthService
) -> None:
    service.decide = lambda kind, asked: DENY if asked.get("routing_key") == "b.x" else ALLOW
    with broker.connect("bob", "pear") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("amq.topic", "a.x", b"permitted")
        with pytest.raises(ChannelClosedByBroker) as caught:
            channel.basic_publish("amq.topic", "b.x", b"refused")
        assert caught.value.reply_text == (
            "ACCESS_REFUSED - access to topic 'b.x' in exchange 'amq.topic' in vhost '/' "
            "refused for user 'bob'"
        )
    assert service.questions("topic")[0] == {
        "username": "bob", "vhost": "/", "resource": "topic", "name": "amq.topic",
        "permission": "write", "tags": "", "routing_key": "a.x",
        "variable_map.username": "bob", "variable_map.vhost": "/",
    }  # fmt: skip


def test_a_vhost_that_the_service_denies_cannot_be_opened(
    broker: BackedBroker, service: AuthService
) -> None:
    service.decide = lambda kind, asked: DENY if kind == "vhost" else ALLOW
    refusal = broker.refusal("bob", "pear")
    assert "NOT_ALLOWED - access to vhost '/' refused for user 'bob'" in refusal


def test_publishes_keep_their_order_while_the_service_is_asked(
    broker: BackedBroker, service: AuthService
) -> None:
    """Each exchange is a new question, in the midst of what one read brought."""
    with broker.connect("bob", "pear") as connection:
        channel = connection.channel()
        channel.queue_declare("in-order", exclusive=True)
        exchanges = [f"asked-{number}" for number in range(8)]
        for exchange in exchanges:
            channel.exchange_declare(exchange, "fanout", auto_delete=True)
            channel.queue_bind("in-order", exchange)
        sent = [f"{number} {exchange}" for number in range(5) for exchange in exchanges]
        for body in sent:
            channel.basic_publish(body.split()[1], "", body.encode())
        got = [channel.basic_get("in-order", auto_ack=True)[2] for _ in sent]
        assert [body.decode() for body in got] == sent


def test_a_service_that_is_broken_refuses_with_the_reason_in_the_log(
    broker: BackedBroker, service: AuthService
) -> None:
    with broker.connect("bob", "pear") as connection:
        channel = connection.channel()
        service.status = 500
        with pytest.raises(ChannelClosedByBroker) as caught:
            channel.queue_declare("not-asked-yet", exclusive=True)
        assert caught.value.reply_text.startswith(
            "ACCESS_REFUSED - access to queue 'not-asked-yet' in vhost '/' refused for user 'bob', "
            "backend rabbit_auth_backend_http returned an error: "
        )
        assert "ACCESS_REFUSED" in broker.refusal("bob", "pear")
        broker.await_line("auth backend failed: login refused", "status 500", "bob")
        broker.await_line("auth backend failed: access refused", "status 500", "not-asked-yet")
        service.status = 200
        assert connection.channel().queue_declare("not-asked-yet", exclusive=True)


def test_the_http_api_knows_users_of_the_service_by_their_tags(
    broker: BackedBroker, service: AuthService
) -> None:
    assert broker.api().put("vhosts", "other").status in (201, 204)
    service.decide = lambda kind, asked: DENY if asked["vhost"] == "other" else ALLOW
    ann = broker.api("ann", "apple")
    assert ann.get("whoami").body["tags"] == ["management", "policymaker"]
    assert [vhost["name"] for vhost in ann.get("vhosts").body] == ["/"]
    assert ann.get("queues", "other").status == 401
    assert ann.put("queues", "/", "anns", body={"auto_delete": True}).status == 201
    message = {
        "properties": {},
        "routing_key": "anns",
        "payload": "x",
        "payload_encoding": "string",
    }
    published = ann.post("exchanges", "/", "amq.default", "publish", body=message)
    assert published.body == {"routed": True}
    assert ann.delete("queues", "/", "anns").status == 204
    assert broker.api("bob", "pear").get("whoami").status == 401


def test_permissions_of_a_channel_are_asked_for_once(
    broker: BackedBroker, service: AuthService
) -> None:
    with broker.connect("bob", "pear") as connection:
        channel = connection.channel()
        channel.queue_declare("often", exclusive=True)
        for _ in range(100):
            channel.basic_publish("", "often", b"x")
        channel.queue_declare("often", passive=True)
        asked = [question["permission"] for question in service.questions("resource")]
        assert asked == ["configure", "write"]


def test_a_get_request_has_the_parameters_in_its_url(start: Start, service: AuthService) -> None:
    broker = start("auth_backends.1 = http\n" + service.settings("get"))
    with broker.connect("bob", "pear") as connection:
        assert connection.channel().is_open
    assert service.questions("user") == [{"username": "bob", "password": "pear"}]


def test_a_service_that_is_gone_lets_nobody_in(start: Start) -> None:
    gone = AuthService()
    broker = start(
        "auth_backends.1 = http\nauth_http.connection_timeout = 2000\n" + gone.settings()
    )
    gone.stop()
    assert "ACCESS_REFUSED" in broker.refusal("ann", "apple")
    line = broker.await_line("auth backend failed: login refused", "rabbit_auth_backend_http")
    assert "Connection refused" in line
    assert "apple" not in broker.log()


def test_the_cache_keeps_what_the_service_said(start: Start, service: AuthService) -> None:
    broker = start(
        "auth_backends.1 = cache\nauth_cache.cached_backend = http\n"
        "auth_cache.cache_ttl = 3600000\n" + service.settings()
    )
    for _ in range(3):
        with broker.connect("ann", "apple") as connection:
            connection.channel().basic_publish("amq.fanout", "", b"x")
            connection.channel().queue_declare("kept", auto_delete=True, passive=False)
    assert len(service.questions("user")) == 1
    assert len(service.questions("vhost")) == 1
    assert len(service.questions("resource")) == 2
    for _ in range(2):  # refusals are not kept
        assert "ACCESS_REFUSED" in broker.refusal("ann", "wrong")
    assert len(service.questions("user")) == 3


def test_permissions_may_be_internal_where_logins_are_not(
    start: Start, service: AuthService
) -> None:
    broker = start(
        "auth_backends.1.authn = http\nauth_backends.1.authz = internal\n"
        "auth_backends.2 = internal\n" + service.settings()
    )
    # The internal backend does not know her.
    assert "ACCESS_REFUSED" in broker.refusal("ann", "apple")
    assert broker.api().put("users", "ann", body={"password": "other", "tags": "monitoring"})
    refusal = broker.refusal("ann", "apple")
    assert "NOT_ALLOWED - access to vhost '/' refused for user 'ann'" in refusal
    grant = {"configure": "", "write": "^amq\\.", "read": ""}
    assert broker.api().put("permissions", "/", "ann", body=grant).status == 201
    with broker.connect("ann", "apple") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("amq.fanout", "", b"x", pika.BasicProperties(user_id="ann"))
        with pytest.raises(ChannelClosedByBroker):
            channel.queue_declare("refused")
    assert not service.questions("resource")
    tags = broker.api("ann", "apple").get("whoami").body["tags"]
    assert tags == ["management", "policymaker", "monitoring"]
