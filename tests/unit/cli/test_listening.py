"""Where a node listens, given what the command line and the file say."""

from __future__ import annotations

import pytest

from warren.cli.main import listening
from warren.config.file import parse_config
from warren.config.values import Endpoint

TWO = "listeners.tcp.all = 5680\nlisteners.tcp.one = 10.0.0.1:5681\n"


@pytest.mark.parametrize(
    ("file", "bind", "port", "amqp", "http_ip"),
    [
        ("", None, None, [("127.0.0.1", 5672)], "127.0.0.1"),
        ("", "0.0.0.0", None, [("0.0.0.0", 5672)], "0.0.0.0"),
        ("", None, 5700, [("127.0.0.1", 5700)], "127.0.0.1"),
        ("", "::1", 5700, [("::1", 5700)], "::1"),
        (TWO, None, None, [(None, 5680), ("10.0.0.1", 5681)], "127.0.0.1"),
        (TWO, "::1", None, [("::1", 5680), ("10.0.0.1", 5681)], "::1"),
        (TWO, None, 5700, [("127.0.0.1", 5700)], "127.0.0.1"),
        ("listeners.tcp = none", None, None, [], "127.0.0.1"),
        ("management.tcp.ip = 10.0.0.2", None, None, [("127.0.0.1", 5672)], "10.0.0.2"),
        ("management.tcp.ip = 10.0.0.2", "::1", None, [("::1", 5672)], "::1"),
    ],
)
def test_the_command_line_goes_before_the_file_and_the_file_before_defaults(
    file: str, bind: str | None, port: int | None, amqp: list[tuple[str | None, int]], http_ip: str
) -> None:
    read = parse_config(file, "test.conf")
    config = listening(read.config(), read, bind, port)
    assert config.tcp_listeners == tuple(Endpoint(*each) for each in amqp)
    assert config.http_ip == http_ip
