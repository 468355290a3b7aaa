"""Runs what the documentation tells people to run: every block of a document, in its order.

    sh        a script for bash; with the comment "in another terminal" it goes on in the background
    python    goes on where the block before it ended; one that begins with "# test_x.py" is a file
    ini       a configuration, which has to be right
    (none)    a drawing, which is not run

"# not run by tests: REASON" as the first line keeps a block from being run; a test knows all of
these. Where a document says 5672 or 15672, the ports of what was started last are meant.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pika

from broker_process import free_port
from warren.config.file import parse_config

ROOT: Final = Path(__file__).parent.parent
DOCUMENTS: Final = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "deploy" / "README.md",
]
LANGUAGES: Final = {"sh", "python", "ini", ""}
WITHIN_S: Final = 280.0
POLL_S: Final = 0.05
ELSEWHERE: Final = "in another terminal"
NOT_RUN: Final = re.compile(r"# not run by tests: (.+)")
_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    document: str
    line: int
    section: str
    language: str
    text: str

    @property
    def reason_not_to_run(self) -> str | None:
        found = NOT_RUN.match(self.text)
        return found[1] if found else None

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks_of(path: Path) -> list[Block]:
    text = path.read_text()

    def made(found: re.Match[str]) -> Block:
        before = text[: found.start()]
        sections = re.findall(r"^#+ (.+)$", _BLOCK.sub("", before), re.MULTILINE)
        name = path.relative_to(ROOT).as_posix()
        return Block(name, before.count("\n") + 1, sections[-1], found[1], found[2])

    return [made(found) for found in _BLOCK.finditer(text)]


class Reader:
    """Somebody who does what a document says, in an empty directory beside the source tree."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.names: dict[str, Any] = {}
        """What Python blocks have made."""
        self.outputs: list[str] = []
        """Of scripts, in their order."""
        self.replaced: dict[str, str] = {}
        """Words of the document, and what to put in their place."""
        self._running: list[subprocess.Popen[bytes]] = []
        self.patience_s = WITHIN_S
        """With one script."""
        self.ports = {"5672": free_port(), "15672": free_port()}
        for name in (".venv", "deploy", "docs"):
            (directory / name).symlink_to(ROOT / name)
        (directory / "scripts").mkdir()
        for script in (ROOT / "scripts").iterdir():
            stand_in = directory / "scripts" / script.name
            stand_in.write_text(f'#!/bin/sh\nexec "{script}" "$@"\n')
            stand_in.chmod(0o755)

    def do(self, block: Block) -> None:
        if block.reason_not_to_run or not block.language:
            return
        if block.language == "python":
            self._python(block)
        elif block.language == "ini":
            assert parse_config(block.text, str(block)).said
        elif ELSEWHERE in block.text.partition("\n")[0]:
            self._start(block)
        else:
            self._shell(block)

    def close(self) -> None:
        """As with Ctrl-C, latest first."""
        for process in reversed(self._running):
            process.send_signal(signal.SIGINT)
        for process in reversed(self._running):
            try:
                process.wait(WITHIN_S)
            finally:
                process.kill()
        self._running.clear()

    # Shell

    def environment(self) -> dict[str, str]:
        beside_python = str(Path(sys.executable).parent)
        return {
            **os.environ,
            "PATH": f"{beside_python}:{os.environ['PATH']}",
            "WARREN_URL": f"http://127.0.0.1:{self.ports['15672']}",
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
        }

    def _shell(self, block: Block) -> None:
        run = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.fitted(block.text)],
            cwd=self.directory, env=self.environment(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=self.patience_s, check=False,
        )  # fmt: skip
        assert run.returncode == 0, f"{block}\n{run.stdout}\n{run.stderr}"
        self.outputs.append(run.stdout)

    def _start(self, block: Block) -> None:
        """In the foreground there, so the shell becomes the program."""
        commands = [line for line in block.text.splitlines() if not line.startswith("#")]
        command = self.fitted("\n".join(commands))
        starts_cluster = "warren cluster" in command
        if not starts_cluster:
            amqp, http = self.ports["5672"], self.ports["15672"]
            command = command.split("  #")[0].rstrip() + f" --port {amqp} --http-port {http}"
        log = self.directory / f"output-{len(self._running)}"
        with log.open("wb") as output:
            script = f"exec env {command}"
            process = subprocess.Popen(
                ["bash", "-c", script], cwd=self.directory, env=self.environment(),
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        self._running.append(process)
        if starts_cluster:
            self._await(lambda: "is ready; connect" in log.read_text(), block, process, log)
            self.ports = dict(_ports_of_cluster(log.read_text()))
        else:
            self._await(self._is_ready, block, process, log)

    def _await(
        self, holds: Callable[[], bool], block: Block, process: subprocess.Popen[bytes], log: Path
    ) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not holds():
            assert process.poll() is None, f"{block} has ended:\n{log.read_text()}"
            assert time.monotonic() < deadline, f"{block} is not ready:\n{log.read_text()}"
            time.sleep(POLL_S)

    def _is_ready(self) -> bool:
        url = f"http://127.0.0.1:{self.ports['15672']}/api/health/checks/ready"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def fitted(self, text: str) -> str:
        """With the ports and words that are right here."""
        for word, other in self.replaced.items():
            text = text.replace(word, other)
        text = text.replace("warren perf ", "warren perf --port 5672 ")
        return re.sub(r"(?<!\d)1?567\d(?!\d)", lambda f: str(self.ports.get(f[0], f[0])), text)

    # Python

    def _python(self, block: Block) -> None:
        if named := re.match(r"# (test_\w+\.py)\n", block.text):
            (self.directory / named[1]).write_text(block.text)
            return
        default = pika.connection.Parameters.DEFAULT_PORT
        pika.connection.Parameters.DEFAULT_PORT = self.ports["5672"]
        try:
            exec(compile(self.fitted(block.text), str(block), "exec"), self.names)
        finally:
            pika.connection.Parameters.DEFAULT_PORT = default


def _ports_of_cluster(told: str) -> Iterator[tuple[str, int]]:
    """The nth node's ports are told where a document has 5672 + n and 15672 + n."""
    for number, found in enumerate(re.findall(r"amqp://[\d.]+:(\d+)\s+http://[\d.]+:(\d+)", told)):
        yield str(5672 + number), int(found[0])
        yield str(15672 + number), int(found[1])
