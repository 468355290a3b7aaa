"""What cannot be shown: a person gets a page that says so, a program what RabbitMQ answers."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from broker_process import BrokerProcess
from browsing import sign_in, visiting
from warren.management.page.api_caller import ApiCaller
from warren.testing import InProcessBroker


def test_an_address_that_leads_nowhere_is_told_on_a_page(page: Page) -> None:
    answer = page.goto("/no-such-page")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_text("There is no such page.")
    page.get_by_role("link", name="Queues").click()
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()


def test_so_is_one_for_somebody_who_is_not_signed_in(visitor: Callable[..., Page]) -> None:
    page = visitor()
    page.goto("/no-such-page")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.get_by_role("navigation")).to_have_count(0)


def test_a_program_gets_the_answer_of_rabbitmq(broker: BrokerProcess) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{broker.http_port}/no-such-page", timeout=60)
    assert refused.value.code == 404
    assert json.load(refused.value) == {"error": "Object Not Found", "reason": "Not Found"}


def test_a_fault_of_ours_is_told_on_a_page_and_in_the_log(
    browser: Browser,
    warren_broker: InProcessBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("as if")

    with visiting(browser, warren_broker.http_port) as arrive:
        page = arrive()
        sign_in(page, "guest", "guest")
        monkeypatch.setattr(ApiCaller, "get", fail)
        answer = page.goto("/queues")
        assert answer is not None
        assert answer.status == 500
        expect(page.get_by_role("alert")).to_contain_text("the broker's log says why")
    assert "page cannot be shown" in caplog.text
