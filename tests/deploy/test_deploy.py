"""What is in deploy/ does what it says, as far as that can be tried without root and a daemon.

The commands of the unit and of the image are run as they stand, with other paths and ports.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from broker_process import free_port
from warren.config.file import parse_config, read_config_file

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
PROGRAMS: Final = Path(sys.executable).parent
WITHIN_S: Final = 120


def unit() -> configparser.ConfigParser:
    read = configparser.ConfigParser(interpolation=None, strict=False)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read(DEPLOY / "warren.service")
    return read


def instructions() -> list[tuple[str, str]]:
    """Of the Dockerfile: what and with which words."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def last(kind: str) -> str:
    return [words for name, words in instructions() if name == kind][-1]


def container_command() -> list[str]:
    return [*json.loads(last("ENTRYPOINT")), *json.loads(last("CMD"))]


def health_check() -> list[str]:
    return list(json.loads(last("HEALTHCHECK").partition("CMD ")[2]))


class Manager:
    """systemd's end of NOTIFY_SOCKET."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.path))
        self._socket.settimeout(WITHIN_S)

    def next_word(self) -> str:
        return self._socket.recv(4096).decode()

    def close(self) -> None:
        self._socket.close()


def test_the_service_starts_says_that_it_is_ready_is_healthy_and_stops(tmp_path: Path) -> None:
    http_port = free_port()
    config = (DEPLOY / "warren.conf").read_text()
    config = config.replace("0.0.0.0:5672", f"127.0.0.1:{free_port()}")
    (tmp_path / "warren.conf").write_text(config.replace("15672", str(http_port)))
    command = [
        word.replace("/opt/warren/bin", str(PROGRAMS))
        .replace("/etc/warren/warren.conf", str(tmp_path / "warren.conf"))
        .replace("/var/lib/warren", str(tmp_path / "data"))
        for word in shlex.split(unit()["Service"]["ExecStart"])
    ]
    manager = Manager(tmp_path)
    environment = {**os.environ, "NOTIFY_SOCKET": str(manager.path)}
    process = subprocess.Popen(command, env=environment)
    try:
        assert manager.next_word() == "READY=1"
        check = [str(PROGRAMS / health_check()[0]), *health_check()[1:]]
        healthy = {**os.environ, "WARREN_URL": f"http://127.0.0.1:{http_port}"}
        check[check.index("--timeout") + 1] = str(WITHIN_S)
        subprocess.run(check, env=healthy, timeout=2 * WITHIN_S, check=True)
        process.send_signal(signal.SIGTERM)
        assert manager.next_word() == "STOPPING=1"
        assert process.wait(WITHIN_S) == 0
        check[check.index("--timeout") + 1] = "1"
        assert subprocess.run(check, env=healthy, timeout=WITHIN_S, check=False).returncode != 0
    finally:
        process.kill()
        process.wait()
        manager.close()


def test_a_wrong_configuration_ends_with_the_code_after_which_systemd_does_not_try_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "wrong.conf").write_text("no_such_key = 1\n")
    command = [str(PROGRAMS / "warren"), "server", "--config", str(tmp_path / "wrong.conf")]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=WITHIN_S, check=False)
    assert str(run.returncode) == unit()["Service"]["RestartPreventExitStatus"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_finds_no_fault_with_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "warren.service").read_text().replace("/opt/warren/bin", str(PROGRAMS))
    (tmp_path / "warren.service").write_text(text)
    command = ["systemd-analyze", "verify", str(tmp_path / "warren.service")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    # It looks at other units, too, which may have faults of their own.
    assert [line for line in run.stderr.splitlines() if "warren.service" in line] == []


def test_the_unit_gives_the_broker_no_more_than_it_needs() -> None:
    service = unit()["Service"]
    assert service["User"] == "warren"
    assert service["NoNewPrivileges"] == "yes"
    assert service["CapabilityBoundingSet"] == ""
    assert service["ProtectSystem"] == "strict"


def test_the_image_runs_the_same_command_as_the_unit() -> None:
    of_unit = shlex.split(unit()["Service"]["ExecStart"])
    assert [Path(of_unit[0]).name, *of_unit[1:]] == container_command()


def test_the_image_runs_without_root_and_keeps_its_data_in_a_volume() -> None:
    final_stage = [name for name, _ in instructions()]
    final_stage = final_stage[len(final_stage) - final_stage[::-1].index("FROM") :]
    assert final_stage.index("USER") < final_stage.index("ENTRYPOINT")
    assert last("USER") == "warren"
    assert last("VOLUME") in container_command()


def test_what_the_image_is_made_of_is_there() -> None:
    copied = [words.split()[:-1] for name, words in instructions() if name == "COPY"]
    ours = [path for paths in copied if not paths[0].startswith("--from") for path in paths]
    assert [path for path in ours if not (ROOT / path).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["readme"] in ours
    assert set(project["license-files"]) <= set(ours)
    extras = re.search(r"pip install .*'\.\[(\w+)\]'", (DEPLOY / "Dockerfile").read_text())
    assert extras is not None
    assert extras[1] in project["optional-dependencies"]


def test_the_image_has_a_python_that_the_broker_runs_on() -> None:
    versions = {words.split(":")[1].split("-")[0] for n, words in instructions() if n == "FROM"}
    assert len(versions) == 1, "a compiled module runs on the version it was made for"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    least = tuple(map(int, project["requires-python"].removeprefix(">=").split(".")))
    assert tuple(map(int, versions.pop().split("."))) >= least


@pytest.mark.parametrize("name", ["warren.conf", "container.conf"])
def test_a_sample_configuration_is_right_with_what_it_proposes_too(name: str) -> None:
    assert read_config_file(DEPLOY / name).pending == []
    proposed = re.sub(r"(?m)^# (?=[\w.]+ = )", "", (DEPLOY / name).read_text())
    assert parse_config(proposed, name).pending == []


@pytest.mark.parametrize("name", ["warren.conf", "container.conf"])
def test_the_user_that_everybody_knows_is_not_open_to_the_network(name: str) -> None:
    config = read_config_file(DEPLOY / name).config()
    assert config.default_user in config.loopback_users
