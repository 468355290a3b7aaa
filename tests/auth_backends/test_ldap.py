"""Users of a real LDAP directory: binding, looking up, groups, attributes, TLS, and its absence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pika.exceptions import ChannelClosedByBroker

from auth_backends.conftest import BackedBroker, Start
from auth_backends.directory_server import SUFFIX, DirectoryServer

PEOPLE = f"ou=People,{SUFFIX}"
GROUPS = f"ou=groups,{SUFFIX}"
PATTERN = f"auth_ldap.user_dn_pattern = cn=${{username}},{PEOPLE}\n"
QUERIES = f"""[{{rabbitmq_auth_backend_ldap, [
  {{vhost_access_query, {{in_group_nested, "cn=staff,{GROUPS}"}}}},
  {{resource_access_query, {{for, [
      {{permission, configure, {{in_group, "cn=admins,{GROUPS}"}}}},
      {{permission, write, {{'or', [
          {{in_group, "cn=admins,{GROUPS}"}},
          {{match, "${{name}}", "^${{username}}-"}}]}}}},
      {{permission, read, {{constant, true}}}}]}}}},
  {{topic_access_query, {{'not', {{match, "${{routing_key}}", "^secret\\\\."}}}}}},
  {{group_lookup_base, "{GROUPS}"}},
  {{tag_queries, [
      {{administrator, {{in_group, "cn=admins,{GROUPS}"}}}},
      {{management, {{exists, "cn=${{username}},{PEOPLE}"}}}},
      {{monitoring, {{equals, "/", {{attribute, "${{user_dn}}", "l"}}}}}}]}}]}}]."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DirectoryServer]:
    directory = DirectoryServer(tmp_path_factory.mktemp("slapd"))
    yield directory
    directory.stop()


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, directory: DirectoryServer
) -> Iterator[BackedBroker]:
    place = tmp_path_factory.mktemp("ldap")
    (place / "advanced.config").write_text(QUERIES)
    broker = BackedBroker(place, directory.settings + PATTERN)
    broker.start()
    yield broker
    broker.stop()


def test_who_can_bind_is_let_in(broker: BackedBroker) -> None:
    with broker.connect("ann", "apple") as connection:
        channel = connection.channel()
        channel.queue_declare("anns", exclusive=True)
        channel.basic_publish("", "anns", b"body")
        assert channel.basic_get("anns", auto_ack=True)[2] == b"body"
    with broker.connect("guest", "guest"):
        pass


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("ann", "pear"),
        ("nobody", "apple"),
        ("ann", ""),
        ("", "apple"),
        # Would be another entry if what users type were put into a DN as it is.
        (f"ann,{PEOPLE}+ou=x", "apple"),
        (f"x,cn=ann,{PEOPLE}", "apple"),
        ("*", "apple"),
    ],
)
def test_who_cannot_bind_is_refused(broker: BackedBroker, user: str, password: str) -> None:
    assert "ACCESS_REFUSED - Login was refused" in broker.refusal(user, password)


def test_queries_say_what_a_user_may_do(broker: BackedBroker) -> None:
    with broker.connect("ann", "apple") as admin:
        channel = admin.channel()
        channel.exchange_declare("bob-x", "fanout", auto_delete=True)
        channel.exchange_declare("anns-x", "fanout", auto_delete=True)
        channel.queue_declare("any", exclusive=True)
        channel.queue_bind("any", "bob-x")
        channel.queue_bind("any", "anns-x")
        with broker.connect("bob", "pear") as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("bob-x", "", b"permitted")
            with pytest.raises(ChannelClosedByBroker, match="access to exchange 'anns-x'"):
                channel.basic_publish("anns-x", "", b"refused")
            with pytest.raises(ChannelClosedByBroker, match="access to queue 'new'"):
                connection.channel().queue_declare("new")


def test_topics_have_a_query_of_their_own(broker: BackedBroker) -> None:
    with broker.connect("ann", "apple") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("amq.topic", "open.x", b"permitted")
        with pytest.raises(ChannelClosedByBroker, match=r"access to topic 'secret\.x'"):
            channel.basic_publish("amq.topic", "secret.x", b"refused")


def test_tags_come_from_queries(broker: BackedBroker) -> None:
    ann = broker.api("ann", "apple").get("whoami").body["tags"]
    assert ann == ["administrator", "management", "monitoring"]
    bob = broker.api("bob", "pear")
    assert bob.get("whoami").body["tags"] == ["management"]
    assert [each["name"] for each in bob.get("vhosts").body] == ["/"]
    assert bob.get("users").status == 401


@pytest.mark.parametrize(
    "binding",
    [
        "auth_ldap.dn_lookup_bind = anon\n",
        (
            f"auth_ldap.dn_lookup_bind.user_dn = cn=bob,{PEOPLE}\n"
            "auth_ldap.dn_lookup_bind.password = pear\n"
        ),
    ],
)
def test_a_user_may_be_looked_up_by_an_attribute(
    start: Start, directory: DirectoryServer, binding: str
) -> None:
    broker = start(
        directory.settings + "auth_ldap.dn_lookup_attribute = uid\n"
        f"auth_ldap.dn_lookup_base = {PEOPLE}\n"
        f"auth_ldap.other_bind.user_dn = cn=bob,{PEOPLE}\nauth_ldap.other_bind.password = pear\n"
        + binding
        + f'auth_ldap.queries.vhost_access = {{equals, "${{user_dn}}", "cn=ann,{PEOPLE}"}}\n'
    )
    with broker.connect("a.apple", "apple") as connection:
        assert connection.is_open
    refusal = broker.refusal("b.pear", "pear")
    assert "NOT_ALLOWED - access to vhost '/' refused for user 'b.pear'" in refusal
    assert "ACCESS_REFUSED" in broker.refusal("*", "apple")


@pytest.mark.parametrize("kind", ["use_ssl", "use_starttls"])
def test_the_directory_is_asked_over_tls(
    start: Start, directory: DirectoryServer, kind: str
) -> None:
    port = directory.ldaps_port if kind == "use_ssl" else directory.port
    trust = f"auth_ldap.ssl_options.cacertfile = {directory.authority.cacertfile}\n"
    encrypted = (
        f"auth_backends.1 = ldap\nauth_ldap.servers.1 = localhost\nauth_ldap.port = {port}\n"
        f"auth_ldap.timeout = 20000\nauth_ldap.{kind} = true\n{PATTERN}"
    )
    with start(encrypted + trust).connect("ann", "apple") as connection:
        assert connection.is_open
    distrustful = start(encrypted)
    assert "ACCESS_REFUSED" in distrustful.refusal("ann", "apple")
    distrustful.await_line("auth backend failed: login refused", "certificate")


def test_a_directory_that_is_down_lets_nobody_in(start: Start, directory: DirectoryServer) -> None:
    broker = start(directory.settings + PATTERN)
    with broker.connect("ann", "apple") as connection:
        channel = connection.channel()
        directory.stop()
        try:
            assert "ACCESS_REFUSED" in broker.refusal("ann", "apple")
            broker.await_line("auth backend failed: login refused", "cannot connect")
            with pytest.raises(ChannelClosedByBroker) as caught:
                channel.queue_declare("asked-in-vain")
            assert caught.value.reply_text.startswith(
                "ACCESS_REFUSED - access to queue 'asked-in-vain' in vhost '/' refused for user "
                "'ann', backend rabbit_auth_backend_ldap returned an error: cannot connect"
            )
        finally:
            directory.start()


def test_the_cache_may_stand_before_a_directory(start: Start, directory: DirectoryServer) -> None:
    broker = start(
        directory.settings.replace("auth_backends.1 = ldap", "auth_backends.1 = cache")
        + PATTERN
        + "auth_cache.cached_backend = ldap\nauth_cache.cache_ttl = 3600000\n"
    )
    with broker.connect("ann", "apple"):
        pass
    directory.stop()
    try:
        with broker.connect("ann", "apple") as connection:
            assert connection.is_open
        assert "ACCESS_REFUSED" in broker.refusal("ann", "wrong")
    finally:
        directory.start()


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ("", "auth_ldap.servers.1"),
        ("auth_ldap.servers.1 = x\nauth_ldap.dn_lookup_attribute = uid", "dn_lookup_base"),
        ("auth_ldap.servers.1 = x\nauth_ldap.use_ssl = true\nauth_ldap.use_starttls = true",
         "auth_ldap.use_starttls"),
    ],
)  # fmt: skip
def test_a_backend_that_cannot_work_is_refused_at_the_start(
    tmp_path: Path, config: str, key: str
) -> None:
    broker = BackedBroker(tmp_path, f"auth_backends.1 = ldap\n{config}\n")
    assert broker.launch().wait(60) != 0
    assert f"{key}: " in broker.log()
