"""The broker under test: whether it is the reference, and the two ways to restart it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

import pytest

from broker_process import BrokerProcess

IS_REFERENCE: Final = "WARREN_TEST_COMMAND" in os.environ
# RabbitMQ holds back what it writes of its topology; a queue younger than this is lost in a crash.
TOPOLOGY_SAFE_AFTER_S: Final = 3.0 if IS_REFERENCE else 0.0
Restart = Callable[[BrokerProcess], None]


def clean(process: BrokerProcess) -> None:
    process.restart()


def crash(process: BrokerProcess) -> None:
    kill(process)
    process.start()


def kill(process: BrokerProcess) -> None:
    time.sleep(TOPOLOGY_SAFE_AFTER_S)
    process.kill()


either_way = pytest.mark.parametrize("restart", [clean, crash])
