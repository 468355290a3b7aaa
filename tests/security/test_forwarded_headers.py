"""X-Forwarded-For counts only if a proxy sends it that the configuration names."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.management_client import Answer, Api
from broker_process import Address, BrokerProcess

FAILURES_MAX = 5
CONFIG = f"warren.login_failures_per_minute = {FAILURES_MAX}\n"


def started(directory: Path, config: str) -> Iterator[Api]:
    broker = BrokerProcess(directory, config)
    broker.start()
    yield Api(Address("127.0.0.1", broker.http_port))
    broker.stop()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    yield from started(tmp_path, CONFIG)


@pytest.fixture
def api_behind_proxy(tmp_path: Path) -> Iterator[Api]:
    yield from started(tmp_path, f"{CONFIG}warren.http_proxies.1 = 127.0.0.0/8\n")


def guess(api: Api, client: str) -> Answer:
    token = base64.b64encode(b"guest:wrong").decode()
    headers = {"Authorization": f"Basic {token}", "X-Forwarded-For": client}
    return api.call("GET", "/api/whoami", headers=headers)


def test_guesses_are_counted_whatever_a_client_says_of_its_address(api: Api) -> None:
    answers = [guess(api, f"192.0.2.{number}").status for number in range(FAILURES_MAX + 2)]
    assert answers == [401] * FAILURES_MAX + [429] * 2


def test_a_proxy_that_is_named_says_for_whom_it_asks(api_behind_proxy: Api) -> None:
    answers = [guess(api_behind_proxy, "192.0.2.1").status for _ in range(FAILURES_MAX + 1)]
    assert answers == [401] * FAILURES_MAX + [429]
    assert guess(api_behind_proxy, "192.0.2.2").status == 401
