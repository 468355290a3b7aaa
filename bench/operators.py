"""What an operator does with a cluster that is measured: sets a policy, looks how far mirrors are.

Warren is asked over HTTP, which costs it and the machine next to nothing. RabbitMQ's management
plugin would cost it some of its rate, so it is asked by its command line.
"""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

ANSWER_S_MAX: Final = 60.0
LOGIN: Final = base64.b64encode(b"guest:guest").decode()
Definition = Mapping[str, str | int]


class Operator(Protocol):
    def set_policy(self, name: str, pattern: str, definition: Definition) -> None: ...

    def count_synchronised(self, queue: str) -> int:
        """How many mirrors of the queue have all of its messages."""
        ...


class WarrenOperator:
    def __init__(self, http_port: int) -> None:
        self._address = f"http://127.0.0.1:{http_port}/api"

    def set_policy(self, name: str, pattern: str, definition: Definition) -> None:
        policy = {"pattern": pattern, "definition": definition, "apply-to": "queues"}
        self.ask("PUT", f"policies/%2F/{name}", json.dumps(policy).encode())

    def count_synchronised(self, queue: str) -> int:
        found: dict[str, Any] = json.loads(
            self.ask("GET", f"queues/%2F/{urllib.parse.quote(queue, '')}")
        )
        return len(found.get("synchronised_slave_nodes", ()))

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        headers = {"Authorization": f"Basic {LOGIN}", "Content-Type": "application/json"}
        url = f"{self._address}/{path}"
        request = urllib.request.Request(url, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=ANSWER_S_MAX) as answer:
            octets: bytes = answer.read()
        return octets


class RabbitmqOperator:
    def __init__(self, program: Path, environment: Mapping[str, str]) -> None:
        self._command = [str(program), "-q", "-n", environment["RABBITMQ_NODENAME"]]
        self._environment = environment

    def set_policy(self, name: str, pattern: str, definition: Definition) -> None:
        self._run("set_policy", name, pattern, json.dumps(definition), "--apply-to", "queues")

    def count_synchronised(self, queue: str) -> int:
        columns = ("name", "synchronised_slave_pids", "--no-table-headers")
        for line in self._run("list_queues", *columns).splitlines():
            name, _, mirrors = line.partition("\t")
            if name == queue:
                return mirrors.count("<")
        return 0

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=ANSWER_S_MAX,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"rabbitmqctl {arguments[0]}: {done.stderr or done.stdout}")
        return done.stdout
