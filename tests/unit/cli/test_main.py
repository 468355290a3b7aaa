"""The command line as a person meets it: a real process, its output and its exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHIN_S = 120


def warren(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "warren.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)


def test_version_names_what_it_is_compatible_with() -> None:
    done = warren("version")
    assert done.returncode == 0
    assert done.stdout.startswith("warren 0.")
    assert "compatible with RabbitMQ 3.10.8" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--help",), ("server", "cluster", "check-config", "perf", "version")),
        (("cluster", "--help"), ("--nodes", "--data-dir", "warren-cluster")),
        (
            ("server", "--help"),
            (
                "--name", "--bind", "--port", "--http-port", "--cluster-port", "--data-dir",
                "--config", "--metadata", "--cluster-secret", "5672", "15672", "warren-data",
            ),
        ),
        (("perf", "--help"), ("--producers", "--consumers", "--size")),
    ],
)  # fmt: skip
def test_help_tells_every_option(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    done = warren(*arguments)
    assert done.returncode == 0
    assert [word for word in words if word not in done.stdout] == []


def test_without_a_command_the_help_is_shown() -> None:
    assert "server" in warren().stdout


def test_an_unknown_option_is_a_usage_error_on_stderr() -> None:
    done = warren("server", "--prot", "5672")
    assert done.returncode == 2
    assert "--prot" in done.stderr
    assert done.stdout == ""


def test_check_config_shows_what_is_set_and_what_has_no_effect(tmp_path: Path) -> None:
    path = tmp_path / "good.conf"
    path.write_text(
        "heartbeat = 30\n"
        "listeners.tcp.default = 5672\n"
        "loopback_users = none\n"
        "default_pass = hush\n"
        "cluster_keepalive_interval = 10000\n"
    )
    done = warren("check-config", path)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "listeners.tcp = *:5672",
        "heartbeat = 30",
        "loopback_users = none",
        "default_pass = (secret)",
        "cluster_keepalive_interval: understood, but has no effect in this version",
        f"{path}: ok",
    ]


def test_check_config_names_every_problem_and_fails(tmp_path: Path) -> None:
    path = tmp_path / "bad.conf"
    path.write_text("heartbeat = soon\nhartbeat = 5\n")
    done = warren("check-config", path)
    assert done.returncode == 78
    assert done.stderr.splitlines() == [
        f"Error: {path}:1: heartbeat: expected a whole number from 0 to 65535, got 'soon'",
        f"Error: {path}:2: hartbeat: unknown key; did you mean heartbeat?",
    ]


def test_check_config_names_a_backend_that_cannot_work(tmp_path: Path) -> None:
    path = tmp_path / "backend.conf"
    path.write_text("auth_backends.1 = ldap\n")
    done = warren("check-config", path)
    assert done.returncode == 78
    assert done.stderr.startswith("Error: auth_ldap.servers.1: has to be set")


def test_the_server_refuses_a_bad_configuration_before_it_starts(tmp_path: Path) -> None:
    path = tmp_path / "bad.conf"
    path.write_text("nonsense = 1\n")
    done = warren("server", "--config", path, "--data-dir", tmp_path / "data")
    assert done.returncode == 78
    assert f"{path}:1: nonsense: unknown key" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_missing_configuration_file_is_named(tmp_path: Path) -> None:
    done = warren("server", "--config", tmp_path / "none.conf")
    assert done.returncode == 78
    assert "none.conf: cannot be read: No such file or directory" in done.stderr


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ("etcd://127.0.0.1:2379", "a node of a cluster needs --cluster-secret"),
        ("etcd://127.0.0.1:port", "expected HOST:PORT as an etcd endpoint"),
        ("zookeeper", "expected etcd://HOST:PORT[,HOST:PORT...], got 'zookeeper', or sqlite"),
    ],
)
def test_other_metadata_stores_are_refused_clearly(
    tmp_path: Path, metadata: str, words: str
) -> None:
    done = warren("server", "--metadata", metadata, "--data-dir", tmp_path / "data")
    assert done.returncode == 78
    assert words in done.stderr
    assert not (tmp_path / "data").exists()


def test_the_metadata_store_is_named_in_the_environment_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the command line all users of a machine would see a password in its address."""
    monkeypatch.setenv("WARREN_METADATA", "zookeeper")
    done = warren("server", "--data-dir", tmp_path / "data")
    assert done.returncode == 78
    assert "got 'zookeeper'" in done.stderr


def test_a_secret_that_could_be_guessed_is_refused(tmp_path: Path) -> None:
    options = ["--metadata", "etcd://127.0.0.1:2379", "--data-dir", tmp_path / "data"]
    done = warren("server", *options, "--cluster-secret", "sunshine")
    assert done.returncode == 78
    assert "the cluster's secret has 8 characters: choose one with 16 or more" in done.stderr
    assert "sunshine" not in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_pipeline_without_spark_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; sys.argv = ['warren', 'pipeline', 'ingest'];"
        "from warren.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=WITHIN_S, check=False,
    )  # fmt: skip
    assert done.returncode == 69
    assert "pip install 'warren[spark]'" in done.stderr
