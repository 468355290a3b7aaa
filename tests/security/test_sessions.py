"""Signing out ends a session for everybody who has its cookie, also after a restart."""

from __future__ import annotations

from urllib.parse import urlencode

from acceptance.management_client import Api
from broker_process import BrokerProcess
from security.page_client import ask_page, log_in_to_page

SIGNED_IN, TO_LOGIN = 200, 303


def sign_out(port: int, cookie: str) -> int:
    token = ask_page(port, "GET", "/queues", cookie=cookie).token
    form = urlencode({"csrf": token}).encode()
    return ask_page(port, "POST", "/logout", form, cookie=cookie).status


def status(port: int, cookie: str) -> int:
    return ask_page(port, "GET", "/queues", cookie=cookie).status


def test_a_copied_cookie_is_worth_nothing_after_signing_out(broker: BrokerProcess) -> None:
    port = broker.http_port
    first, second = (log_in_to_page(port, "guest", "guest").cookie for _ in range(2))
    assert status(port, first) == SIGNED_IN
    assert sign_out(port, first) == TO_LOGIN
    assert status(port, first) == TO_LOGIN
    assert status(port, second) == SIGNED_IN, "another session of the same user goes on"
    broker.restart()
    assert status(port, first) == TO_LOGIN
    assert status(port, second) == SIGNED_IN


def test_a_user_ends_sessions_of_its_own_only(broker: BrokerProcess, api: Api) -> None:
    api.must(api.put("users", "modest", body={"password": "secret", "tags": "management"}))
    port, modest = broker.http_port, api.as_user("modest", "secret")
    cookie = log_in_to_page(port, "guest", "guest").cookie
    assert modest.delete("warren", "page-sessions", "no id").status == 400
    for number in range(150):
        modest.must(modest.delete("warren", "page-sessions", f"{number:064d}"))
    assert status(port, cookie) == SIGNED_IN
    assert sign_out(port, cookie) == TO_LOGIN
    modest.must(modest.delete("warren", "page-sessions", "f" * 64))
    assert status(port, cookie) == TO_LOGIN, "others cannot make the broker forget that"
