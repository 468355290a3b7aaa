#!/usr/bin/env python3
"""RabbitMQ behind the command line of `warren server`, so that these tests can be tried on it.

    WARREN_TEST_COMMAND=tests/durability/reference_broker.py \\
        python -m pytest -o timeout=600 tests/durability tests/crashes

Takes over the process: what kills this program kills RabbitMQ. Its data lie directly in the data
directory, so that `msg_stores` is where Warren has it. A child that dies with its parent answers
the question whether the broker is ready.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import http.server
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Final

SERVER: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"
PR_SET_PDEATHSIG: Final = 1
AMQP_HEADER: Final = b"AMQP\x00\x00\x09\x01"


def is_serving(port: int) -> bool:
    """A connection is greeted, which RabbitMQ does only when its queues are recovered."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
            probe.sendall(AMQP_HEADER)
            return probe.recv(1) == b"\x01"
    except OSError:
        return False


def answer_for_ever(http_port: int, amqp_port: int) -> None:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if is_serving(amqp_port) else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nobody asked."""

    http.server.HTTPServer(("127.0.0.1", http_port), Answer).serve_forever()


def fork_answering(http_port: int, amqp_port: int) -> None:
    parent = os.getpid()
    if os.fork():
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:
        answer_for_ever(http_port, amqp_port)
    os._exit(0)


def write_configuration(arguments: argparse.Namespace, beside: Path) -> None:
    settings = arguments.config.read_text() if arguments.config else ""
    (beside / "rabbit.conf").write_text(
        f"listeners.tcp.1 = 127.0.0.1:{arguments.port}\n"
        "log.console = true\nlog.console.level = warning\nlog.file = false\n"
        "disk_free_limit.absolute = 50MB\n" + settings
    )
    (beside / "advanced.config").write_text("[{kernel,[{inet_dist_use_interface,{127,0,0,1}}]}].\n")
    (beside / "enabled_plugins").write_text("[].\n")
    (beside / "env.conf").write_text("")
    cookie = beside / ".erlang.cookie"
    if not cookie.exists():
        cookie.write_text("DURABILITYTESTS")
        cookie.chmod(0o400)


def environment(arguments: argparse.Namespace, beside: Path) -> dict[str, str]:
    data = arguments.data_dir.absolute()
    name = hashlib.md5(bytes(data)).hexdigest()[:12]
    return {
        **os.environ,
        "HOME": str(beside),
        "LC_ALL": "C.UTF-8",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": os.environ.get("ERL_EPMD_PORT", "4398"),
        "RUNNING_UNDER_SYSTEMD": "true",  # take over this process instead of starting another
        "RABBITMQ_NODENAME": f"d{name}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(arguments.port),
        "RABBITMQ_DIST_PORT": str(20000 + int(name[:4], 16) % 8000),
        "RABBITMQ_MNESIA_BASE": str(data.parent),
        "RABBITMQ_MNESIA_DIR": str(data),
        "RABBITMQ_LOG_BASE": str(beside),
        "RABBITMQ_CONFIG_FILE": str(beside / "rabbit.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(beside / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(beside / "enabled_plugins"),
        "RABBITMQ_CONF_ENV_FILE": str(beside / "env.conf"),
        "RABBITMQ_PID_FILE": str(beside / "pid"),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["server"])
    for option in ("bind", "port", "http-port", "name"):
        parser.add_argument(f"--{option}")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--config", type=Path)
    arguments = parser.parse_args()
    beside = arguments.data_dir.absolute().parent / "reference"
    beside.mkdir(parents=True, exist_ok=True)
    write_configuration(arguments, beside)
    fork_answering(int(arguments.http_port), int(arguments.port))
    sys.stdout.flush()
    os.execve(SERVER, [SERVER], environment(arguments, beside))


if __name__ == "__main__":
    main()
