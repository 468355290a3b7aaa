"""A broker with its page and a browser to look at it with, one of each for every file here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Browser, Page, StorageState

from acceptance.management_client import Api
from broker_process import Address, BrokerProcess
from browsing import browser, sign_in, visiting
from live_broker import connection_parameters

__all__ = ["browser"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("page"))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def api(broker: BrokerProcess) -> Api:
    return Api(Address("127.0.0.1", broker.http_port))


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(connection_parameters(broker.address))
    yield connection.channel()
    if connection.is_open:
        connection.close()


@pytest.fixture
def visitor(browser: Browser, broker: BrokerProcess) -> Iterator[Callable[..., Page]]:
    with visiting(browser, broker.http_port) as arrive:
        yield arrive


@pytest.fixture(scope="module")
def session(browser: Browser, broker: BrokerProcess) -> StorageState:
    """The administrator's cookies."""
    with visiting(browser, broker.http_port) as arrive:
        page = arrive()
        sign_in(page, "guest", "guest")
        return page.context.storage_state()


@pytest.fixture
def page(visitor: Callable[..., Page], session: StorageState) -> Page:
    """The administrator's, signed in."""
    return visitor(session)
