"""A broker with its page and a real browser to look at it with, one of each for every file here."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Browser, Page, expect, sync_playwright

from acceptance.management_client import Api
from broker_process import Address, BrokerProcess

# A machine may be slow, and busy with other things: this is not about how fast anything is.
PATIENCE_MS = 60_000
VIEW = {"width": 1440, "height": 1000}

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("page"))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's, or else the one that came with Playwright."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture
def api(broker: BrokerProcess) -> Api:
    return Api(Address("127.0.0.1", broker.http_port))


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters(port=broker.address.port))
    yield connection.channel()
    if connection.is_open:
        connection.close()


@pytest.fixture
def visitor(browser: Browser, broker: BrokerProcess) -> Iterator[Callable[[], Page]]:
    """Somebody who is not signed in yet. What a page's scripts trip over fails the test."""
    contexts, faults = [], list[str]()

    def arrive() -> Page:
        context = browser.new_context(
            base_url=f"http://127.0.0.1:{broker.http_port}", viewport=VIEW
        )
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        return page

    yield arrive
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture
def page(visitor: Callable[[], Page]) -> Page:
    """The administrator's, signed in."""
    page = visitor()
    sign_in(page, "guest", "guest")
    return page


def sign_in(page: Page, user: str, password: str) -> None:
    page.goto("/login")
    page.get_by_label("Username").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
