"""`warren demo` that does not come to its end; a whole one is part of the README's test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

WARREN: Final = str(Path(sys.executable).with_name("warren"))
WITHIN_S: Final = 280
POLL_S: Final = 0.1


def started(directory: Path, *options: str) -> subprocess.Popen[str]:
    """With its directories under this one, by which its processes are known."""
    return subprocess.Popen(
        [WARREN, "demo", "--no-spark", *options],
        env={**os.environ, "TMPDIR": str(directory), "COLUMNS": "200"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def processes_in(directory: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has just ended
        if f"{directory}/" in command:
            found.append(command)
    return found


def test_it_can_be_interrupted_and_leaves_nothing(tmp_path: Path) -> None:
    demo = started(tmp_path, "--seconds", "3000", "--rate", "100")
    try:
        deadline = time.monotonic() + WITHIN_S
        while not processes_in(tmp_path) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        assert processes_in(tmp_path) != []
        demo.send_signal(signal.SIGINT)
        told, _ = demo.communicate(timeout=WITHIN_S)
    finally:
        demo.kill()
    assert demo.returncode == 130, told
    assert processes_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_without_etcd_it_says_what_to_install(tmp_path: Path) -> None:
    run = subprocess.run(
        [WARREN, "demo", "--no-spark"], env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=WITHIN_S, check=False,
    )  # fmt: skip
    assert run.returncode == 69
    assert "apt-get install etcd-server" in run.stderr
