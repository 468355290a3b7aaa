"""The broker in the process of a test, and pytest's fixtures for it.

The example of docs/TESTING.md is run with the other guides.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Final

import pika
import pytest

from warren.config.file import ConfigError
from warren.server.sockets import CannotListenError
from warren.testing import InProcessBroker, running_broker

MEMORY_DISK: Final = Path("/dev/shm")
START_S_MAX: Final = 0.3
STARTS_TRIED_MAX: Final = 30


def connect(broker: InProcessBroker) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.url))


def test_a_start_takes_less_than_three_tenths_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the modules are there; not counting a slow disk, or what others do on this machine."""
    if MEMORY_DISK.is_dir() and os.access(MEMORY_DISK, os.W_OK):
        monkeypatch.setattr(tempfile, "tempdir", str(MEMORY_DISK))
    took = []
    for _ in range(STARTS_TRIED_MAX):
        began = time.monotonic()
        with running_broker():
            took.append(time.monotonic() - began)
        if took[-1] < START_S_MAX:
            return
    pytest.fail(f"the best start took {min(took):.2f} s")


def test_the_fixture_gives_a_broker_with_the_management_api(warren_broker: InProcessBroker) -> None:
    connection = connect(warren_broker)
    assert connection.channel().queue_declare("q").method.queue == "q"
    connection.close()
    assert warren_broker.url == f"amqp://guest:guest@127.0.0.1:{warren_broker.port}/%2F"
    assert warren_broker.http_url == f"http://127.0.0.1:{warren_broker.http_port}"
    assert "/login" in page_of(warren_broker)


def page_of(broker: InProcessBroker) -> str:
    with urllib.request.urlopen(broker.http_url, timeout=60) as answer:
        return str(answer.url)


def test_the_broker_of_a_session_keeps_what_is_there(
    warren_session_broker: InProcessBroker, request: pytest.FixtureRequest
) -> None:
    with connect(warren_session_broker) as connection:
        connection.channel().queue_declare("kept", durable=True)
    assert request.getfixturevalue("warren_session_broker") is warren_session_broker
    with connect(warren_session_broker) as connection:
        kept = connection.channel().queue_declare("kept", passive=True)
    assert kept.method.message_count == 0


def test_nothing_is_left_of_a_broker_that_was_stopped() -> None:
    with running_broker():
        pass  # what is made once in a process is there now
    threads = set(threading.enumerate())
    with running_broker() as broker, running_broker() as other:
        assert broker.port != other.port
        assert broker.data_dir != other.data_dir
        data_dirs = [broker.data_dir, other.data_dir]
    assert set(threading.enumerate()) <= threads
    assert [path for path in data_dirs if path.exists()] == []
    assert not broker.is_running


def test_a_client_that_stayed_is_told_at_the_stop() -> None:
    with running_broker() as broker:
        connection = connect(broker)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="shutdown"):
        connection.process_data_events(time_limit=60)


def test_a_start_that_fails_says_why_and_can_be_tried_again(tmp_path: Path) -> None:
    with running_broker() as other:
        broker = InProcessBroker(tmp_path, f"prometheus.tcp.port = {other.port}")
        with pytest.raises(CannotListenError, match=str(other.port)):
            broker.start()
        assert not broker.is_running
    broker.start()
    connect(broker).close()
    broker.stop()


def test_a_setting_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match="no_such_key"), running_broker("no_such_key = 1"):
        pass
