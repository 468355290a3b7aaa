"""The two brokers of the comparison, each with what the tests want of `rabbitmqctl`.

`rabbitmqctl` of RabbitMQ is its own. For Warren its verbs are those of `warrenctl`, but for some:
`stop_app` and `start_app` stop and start the process, and an `eval` that sets or clears an alarm
becomes a limit that is always exceeded, or the usual one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import socketserver
import subprocess
import threading
from pathlib import Path
from typing import Final

from acceptance.control import Control
from broker_process import BrokerProcess
from durability import reference_broker

RABBITMQCTL: Final = "/usr/lib/rabbitmq/bin/rabbitmqctl"
REFERENCE: Final = Path(reference_broker.__file__)
NODE: Final = "rabbit@localhost"
Answer = tuple[int, str, str]

_ALARM: Final = re.compile(r"rabbit_alarm:(set|clear)_alarm\(\{+resource_limit, (memory|disk)")
_ALARM_VERBS: Final = {
    ("set", "memory"): "set_vm_memory_high_watermark absolute 1",
    ("clear", "memory"): "set_vm_memory_high_watermark 0.4",
    ("set", "disk"): "set_disk_free_limit 1000000GB",
    ("clear", "disk"): "set_disk_free_limit 50MB",
}


class Warren:
    name = "Warren"
    command: str | None = None

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.process = BrokerProcess(directory)
        self.process.command = self.command or self.process.command
        self.process.start()

    def control(self, words: list[str]) -> Answer:
        if words[0] == "stop_app":
            self.process.stop()
        elif words[0] == "start_app":
            self.process.start()
        else:
            return self._warrenctl(words)
        return 0, "", ""

    def _warrenctl(self, words: list[str]) -> Answer:
        if words[0] == "eval":
            alarm = _ALARM.match(words[1])
            if alarm is None:
                return 64, "", "Warren has no eval\n"
            words = shlex.split(_ALARM_VERBS[alarm[1], alarm[2]])
        done = Control(f"http://127.0.0.1:{self.process.http_port}")("", *words)
        return done.code, done.out, done.err


class RabbitMQ(Warren):
    name = "RabbitMQ"
    command = str(REFERENCE)

    def control(self, words: list[str]) -> Answer:
        data_dir = self.process.data_dir.absolute()
        arguments = argparse.Namespace(port=self.process.address.port, data_dir=data_dir)
        environment = reference_broker.environment(arguments, data_dir.parent / "reference")
        node = environment["RABBITMQ_NODENAME"]
        command = [RABBITMQCTL, "-n", node, *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr


class ControlServer(socketserver.ThreadingUnixStreamServer):
    """Answers `rabbitmqctl.py`, one request at a time."""

    def __init__(self, broker: Warren, path: Path) -> None:
        super().__init__(str(path), _Request)
        self.broker = broker
        self.turn = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, words: list[str]) -> Answer:
        if words[:1] == ["-n"]:
            words = words[2:]
        with self.turn:
            return self.broker.control(words)


class _Request(socketserver.StreamRequestHandler):
    server: ControlServer

    def handle(self) -> None:
        answer = self.server.answer(json.loads(self.rfile.readline()))
        self.wfile.write(json.dumps(answer).encode() + b"\n")


def is_rabbitmq_installed() -> bool:
    return os.access(reference_broker.SERVER, os.X_OK)
