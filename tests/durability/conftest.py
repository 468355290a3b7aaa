"""What every test here may ask for: a broker that it may stop, kill and start, and a seed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_process import BrokerProcess
from durability.disk_faults import DiskFaults
from durability.under_test import IS_REFERENCE

MakeBroker = Callable[..., BrokerProcess]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "warren_only: promises more than the reference broker does")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where Warren promises more, there is nothing to compare with."""
    beyond = [item for item in items if IS_REFERENCE and item.get_closest_marker("warren_only")]
    config.hook.pytest_deselected(items=beyond)
    items[:] = [item for item in items if item not in beyond]


@pytest.fixture
def chance() -> random.Random:
    """The same in every run; CHAOS_SEED tries others."""
    return random.Random(int(os.environ.get("CHAOS_SEED", "1")))


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[MakeBroker]:
    """Makes brokers of the test's own, not started; those that run in the end are killed."""
    made: list[BrokerProcess] = []

    def make(config: str = "") -> BrokerProcess:
        directory = tmp_path / f"broker-{len(made)}"
        directory.mkdir()
        made.append(BrokerProcess(directory, config))
        return made[-1]

    yield make
    for process in made:
        process.kill()
        print(f"log of {process.log_path.parent.name}:\n{process.log()[-20_000:]}")


@pytest.fixture
def mortal(make_broker: MakeBroker) -> BrokerProcess:
    """A broker that the test may stop, kill and start."""
    process = make_broker()
    process.start()
    return process


@pytest.fixture
def faulty(make_broker: MakeBroker) -> tuple[BrokerProcess, DiskFaults]:
    """A broker on a disk that can be spoiled, not started yet."""
    process = make_broker()
    faults = DiskFaults(process.log_path.parent / "faults", process.data_dir)
    process.environment = faults.environment
    return process, faults
