"""A broker that hostile requests are sent to, one for each file here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptance.management_client import Api
from broker_process import Address, BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("attacked"))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def api(broker: BrokerProcess) -> Api:
    return Api(Address("127.0.0.1", broker.http_port))
