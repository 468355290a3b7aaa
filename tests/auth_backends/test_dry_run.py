"""warrenctl authenticate_user through the chain, and a dry run that says who answered what."""

from __future__ import annotations

import pytest

from acceptance.control import Control
from auth_backends.conftest import BackedBroker, Start
from auth_backends.http_service import ALLOW, DENY, AuthService


@pytest.fixture(scope="module")
def broker(start: Start, service: AuthService) -> BackedBroker:
    service.users = {"ann": ("apple", "monitoring")}
    service.decide = lambda kind, asked: DENY if asked.get("name") == "theirs" else ALLOW
    chain = "auth_backends.1 = internal\nauth_backends.2 = http\n"
    return start(chain + service.settings())


@pytest.fixture
def control(broker: BackedBroker) -> Control:
    return Control(f"http://127.0.0.1:{broker.http_port}")


def test_authenticate_user_goes_through_the_chain(control: Control) -> None:
    assert "Success" in control.ok("authenticate_user ann apple").out
    refused = control("authenticate_user ann pear")
    assert refused.code != 0
    assert 'failed to authenticate user "ann"' in refused.err


def test_a_dry_run_says_which_backend_answered_what(control: Control) -> None:
    lines = control.ok("check_user_access ann apple --queue mine --permission configure").out
    assert lines.splitlines()[1:] == [
        "User: ann, tags: monitoring",
        "rabbit_auth_backend_internal: authentication: refused (user 'ann' - invalid credentials)",
        "rabbit_auth_backend_http: authentication: accepted (as 'ann')",
        "rabbit_auth_backend_http: virtual host '/': permitted",
        "rabbit_auth_backend_http: configure of queue 'mine': permitted",
        "Outcome: permitted",
    ]


def test_a_dry_run_ends_with_the_first_refusal(control: Control) -> None:
    refused = control("check_user_access ann apple --exchange theirs --routing-key a.b")
    assert refused.code != 0
    assert "rabbit_auth_backend_http: read of exchange 'theirs': refused" in refused.err
    assert "a.b" not in refused.err
    assert "Outcome: refused" in refused.err
    nobody = control("check_user_access ann wrong")
    assert nobody.code != 0
    assert "rabbit_auth_backend_http: authentication: refused" in nobody.err


def test_internal_users_are_checked_by_the_internal_backend(control: Control) -> None:
    lines = control.ok("check_user_access guest guest --exchange amq.topic --routing-key k").out
    assert "rabbit_auth_backend_internal: read of topic 'k' of 'amq.topic': permitted" in lines
    assert "rabbit_auth_backend_http" not in lines


def test_only_administrators_may_ask(broker: BackedBroker) -> None:
    body = {"username": "guest", "password": "guest"}
    assert broker.api("ann", "apple").post("warren", "access", "check", body=body).status == 401
