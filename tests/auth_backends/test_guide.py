"""The guide docs/AUTH.md: every configuration in it starts a broker that lets its users in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptance.control import Control
from auth_backends.conftest import BackedBroker, Start
from auth_backends.directory_server import DirectoryServer
from auth_backends.http_service import ALLOW, AuthService
from auth_backends.token_issuer import TokenIssuer
from documents import ROOT, Block, blocks_of
from warren.config.file import parse_config

BLOCKS = blocks_of(ROOT / "docs" / "AUTH.md")


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenIssuer]:
    issuer = TokenIssuer(tmp_path_factory.mktemp("issuer"))
    yield issuer
    issuer.stop()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DirectoryServer]:
    directory = DirectoryServer(tmp_path_factory.mktemp("slapd"))
    yield directory
    directory.stop()


def block(section: str, language: str = "ini") -> Block:
    (found,) = (b for b in BLOCKS if b.section == section and b.language == language)
    return found


def test_every_block_is_tried_here() -> None:
    assert [(b.section, b.language) for b in BLOCKS] == [
        ("The chain", "ini"),
        ("The chain", "sh"),
        ("A cache in front", "ini"),
        ("LDAP", "ini"),
        ("LDAP", ""),
        ("OAuth 2.0", "ini"),
        ("Signing in to the page by OpenID Connect", "ini"),
    ]


@pytest.mark.parametrize("section", ["The chain", "A cache in front"])
def test_http(start: Start, service: AuthService, section: str) -> None:
    service.users = {"ann": ("apple", "")}
    service.decide = lambda kind, asked: ALLOW
    text = block(section).text.replace("http://auth.example.org:8000", service.url)
    with start(text).connect("ann", "apple") as connection:
        assert connection.channel().queue_declare("guided", exclusive=True)


def test_the_commands(start: Start) -> None:
    broker: BackedBroker = start("auth_backends.1 = internal\n")
    control = Control(f"http://127.0.0.1:{broker.http_port}")
    authenticate, check = block("The chain", "sh").text.splitlines()
    assert "Success" in control.ok(authenticate.removeprefix("warrenctl ")).out
    said = control.ok(check.removeprefix("warrenctl ")).out
    assert "rabbit_auth_backend_internal: write of queue 'orders': permitted" in said


def test_ldap(start: Start, directory: DirectoryServer) -> None:
    text = block("LDAP").text
    for said, meant in (
        ("ldap.example.org", "localhost"),
        ("port = 389", f"port = {directory.port}"),
        ("/etc/warren/ca.pem", str(directory.authority.cacertfile)),
    ):
        assert said in text
        text = text.replace(said, meant)
    broker = start(text)
    with broker.connect("bob", "pear") as connection:
        assert connection.channel().queue_declare("guided", exclusive=True)
    assert broker.api("bob", "pear").get("whoami").body["tags"] == ["administrator"]
    assert "NOT_ALLOWED - access to vhost '/'" in broker.refusal("ann", "apple")


def test_the_same_queries_may_stand_in_advanced_config() -> None:
    erlang = parse_config(block("LDAP", "").text, "advanced.config").config().auth_ldap
    plain = parse_config(block("LDAP").text, "rabbitmq.conf").config().auth_ldap
    assert erlang.vhost_access.replace("'", "") == plain.vhost_access
    assert erlang.tags.replace("'", "") == plain.tags


@pytest.mark.parametrize("section", ["OAuth 2.0", "Signing in to the page by OpenID Connect"])
def test_oauth2(start: Start, issuer: TokenIssuer, section: str) -> None:
    text = block(section).text.replace("https://issuer.example.org", issuer.url)
    text = text.replace("/etc/warren/ca.pem", str(issuer.authority.cacertfile))
    broker = start(text)
    token = issuer.token("configure:%2F/guided", "tag:monitoring")
    with broker.connect("ann", token) as connection:
        assert connection.channel().queue_declare("guided", exclusive=True)
    assert broker.api("ann", token).get("whoami").body["tags"] == ["monitoring"]
