"""Every verb of warrenctl, about a node that is dead, frozen, drained, unknown, or not a node.

The verbs are those of the catalogue. A new verb, or an argument with a new name, fails here until
it has its rule: the samples of arguments below, and `Verb.contact`.
"""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from acceptance.control import Control, Done
from cluster.nodes import ClusterOfNodes, NodeProcess, eventually, running
from warren.cli.ctl import api as node_api
from warren.cli.ctl.catalogue import VERBS
from warren.cli.ctl.verbs import Contact, Verb

NODE_UNAVAILABLE: Final = 69
WARRENCTL: Final = Path(sys.executable).with_name("warrenctl")
# What to give for an argument, by its name in the usage of the verb.
SAMPLES: Final = {
    "column": None, "command": "status", "component_name": "c",
    "connection pid": "<n1@localhost.1.2.0>", "conf": ".*", "count": "1",
    "definition": '{"max-connections": 1}', "disk_limit": "1000", "exchange": "amq.topic",
    "existing_cluster_member_node": "n3@localhost", "explanation": "why", "feature_flag": "all",
    "file_path": "FILE", "fraction": None, "hostname": "localhost", "limit": "all",
    "limit_type": "all", "log_level": "info", "name": "x", "node": "n1@localhost",
    "passphrase": "pass", "password": "secret", "pattern": "^x", "pidfile": "FILE",
    "plugin": "rabbitmq_management", "port": "5672", "position": "1", "protocol": "amqp",
    "queue": "q", "queue_name": "q", "read": ".*", "shell": "bash", "strategy": "all",
    "stream": "s", "super-stream": "s", "tag": None, "type": "all", "username": "nobody",
    "value": "1", "vhost": "nowhere", "word": None, "write": ".*",
}  # fmt: skip
# Verbs that find out by themselves whether there is a node: their options, and how they end.
OWN: Final = {
    "await_startup": ("--timeout 1", 69),
    "forget_cluster_node": ("", 69),
    "shutdown": ("", 69),
    "stop": ("", 69),
    "wait": (f"--pid {os.getpid()} --timeout 1", 75),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfNodes]:
    """Its third node is dead; the second one is frozen and drained in turn."""
    with running(tmp_path_factory.mktemp("verbs")) as cluster:
        cluster.nodes[2].kill()
        yield cluster


@pytest.fixture(scope="module")
def sample_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("samples") / "file"
    path.write_text("{}")
    return str(path)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen process is not waited for 7 s by each of all these verbs."""
    monkeypatch.setattr(node_api, "ANSWER_S_MAX", 0.2)


def line_of(verb: Verb, file: str) -> list[str]:
    words = [verb.name]
    for argument in verb.arguments:
        sample = SAMPLES[argument.name]
        if sample is not None:
            words.append(file if sample == "FILE" else sample)
    return words


def ends(control: Control, verb: Verb, file: str, *options: str) -> tuple[int, Done]:
    """How the verb must end where no node is to be had, and how it does."""
    more, expected = OWN[verb.name] if verb.contact is Contact.OWN else ("", NODE_UNAVAILABLE)
    return expected, control(" ".join(options), *line_of(verb, file), *more.split())


def asking() -> list[Verb]:
    return [verb for verb in VERBS.values() if verb.contact is not Contact.NONE]


def wrong_ends(control: Control, file: str, *options: str) -> list[str]:
    found = []
    for verb in asking():
        expected, done = ends(control, verb, file, *options)
        if done.code != expected or "Traceback" in done.err or not done.err.strip():
            found.append(f"{verb.name}: {done}")
    return found


@pytest.fixture
def frozen(cluster: ClusterOfNodes) -> Iterator[NodeProcess]:
    node = cluster.nodes[1]
    os.kill(node.pid, signal.SIGSTOP)
    yield node
    os.kill(node.pid, signal.SIGCONT)
    eventually(lambda: cluster.nodes[0].control(f"-n {node.name} ping").code == 0, "it is back")


def test_a_dead_member_is_unavailable_to_every_verb(
    cluster: ClusterOfNodes, sample_file: str
) -> None:
    control = cluster.nodes[0].control
    assert wrong_ends(control, sample_file, "-n", "n3@localhost") == []
    said = control("-n n3@localhost status").err
    assert "unable to perform an operation on node 'n3@localhost'" in said
    assert "not running" in said


def test_the_address_of_a_dead_node_is_unavailable_to_every_verb(
    cluster: ClusterOfNodes, sample_file: str
) -> None:
    assert wrong_ends(cluster.nodes[2].control, sample_file) == []


@pytest.mark.timeout(300)
def test_a_frozen_member_is_unavailable_to_every_verb(
    cluster: ClusterOfNodes, frozen: NodeProcess, sample_file: str
) -> None:
    """From the first moment: its session has not ended yet."""
    began = time.monotonic()
    assert cluster.nodes[0].control(f"-n {frozen.name} ping").code == NODE_UNAVAILABLE
    assert time.monotonic() - began < 30
    assert wrong_ends(cluster.nodes[0].control, sample_file, "-n", frozen.name) == []


def test_a_frozen_node_that_is_asked_itself_is_unavailable(frozen: NodeProcess) -> None:
    """With the patience that people get."""
    began = time.monotonic()
    done = subprocess.run(
        [WARRENCTL, "--url", f"http://127.0.0.1:{frozen.http_port}", "list_queues"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, "did not answer in time" in done.stderr) == (69, True)
    assert time.monotonic() - began < 30


@pytest.mark.usefixtures("impatient")
@pytest.mark.timeout(300)
def test_a_frozen_node_is_unavailable_to_every_verb(frozen: NodeProcess, sample_file: str) -> None:
    assert wrong_ends(frozen.control, sample_file) == []


def test_a_node_of_another_cluster_is_unavailable_to_every_verb(
    cluster: ClusterOfNodes, sample_file: str
) -> None:
    control = cluster.nodes[0].control
    assert wrong_ends(control, sample_file, "-n", "rabbit@elsewhere") == []
    said = control("-n rabbit@elsewhere status").err
    assert "knows no node 'rabbit@elsewhere'. Its nodes are: n1@localhost, n2" in said


def test_a_host_that_does_not_exist_is_unavailable(sample_file: str) -> None:
    assert Control("http://no-such-host.invalid:15672")("status").code == NODE_UNAVAILABLE


def test_an_amqp_port_is_no_management_api(cluster: ClusterOfNodes, sample_file: str) -> None:
    control = Control(f"http://127.0.0.1:{cluster.nodes[0].address.port}")
    assert wrong_ends(control, sample_file) == []
    assert "that port is for AMQP clients; the management API" in control("status").err


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>some other server</html>")

    def log_request(self, *_: object) -> None:
        """Nothing is printed."""


def test_another_web_server_is_no_management_api(sample_file: str) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        control = Control(f"http://127.0.0.1:{server.server_port}")
        assert wrong_ends(control, sample_file) == []
        assert "no management API" in control("list_queues").err
    finally:
        server.shutdown()


def test_verbs_without_a_node_need_none(sample_file: str) -> None:
    control = Control("http://127.0.0.1:1")
    for verb in VERBS.values():
        if verb.contact is Contact.NONE:
            done = control("", *line_of(verb, sample_file))
            assert "unable to reach" not in done.err, done
            assert "Traceback" not in done.err, done


def test_a_drained_member_answers_as_one_that_runs(
    cluster: ClusterOfNodes, sample_file: str
) -> None:
    """It runs, so RabbitMQ's checks of that pass; what fails is to connect to it."""
    drained, control = cluster.nodes[1], cluster.nodes[0].control
    about = f"-n {drained.name}"
    control.ok(f"{about} drain")
    try:
        for verb in ("ping", "check_running", "await_startup", "check_virtual_hosts", "listeners"):
            assert control(f"{about} {verb}").code == 0, verb
            assert drained.control(verb).code == 0, verb
        assert "Is under maintenance?: true" in control.ok(f"{about} status").out
        for asked in (control, drained.control):
            failed = asked(f"{about} check_port_connectivity")
            assert failed.code == NODE_UNAVAILABLE, failed
            assert f"port: {drained.address.port}, protocol: amqp" in failed.err
            port = drained.address.port
            assert asked(f"{about} check_port_listener {port}").code == NODE_UNAVAILABLE
    finally:
        control.ok(f"{about} revive")
    control.ok(f"{about} check_port_connectivity")


def test_a_verb_is_about_the_node_that_is_named(cluster: ClusterOfNodes) -> None:
    """What each node says of itself does not come from the node that was asked."""
    asked, named = cluster.nodes[0].control, cluster.nodes[1]
    about = f"-n {named.name}"
    listed = asked.ok(f"{about} listeners").out
    assert str(named.address.port) in listed
    assert str(cluster.nodes[0].address.port) not in listed
    assert f"OS PID: {named.pid}" in asked.ok(f"{about} status").out
    environment = asked.ok(f"{about} environment").out
    assert str(named.address.port) in environment or named.name in environment
    assert str(named.address.port) in asked.ok(f"{about} check_port_connectivity").out


def test_another_node_is_stopped_and_awaited(cluster: ClusterOfNodes) -> None:
    asked, named = cluster.nodes[0].control, cluster.nodes[1]
    asked.ok(f"-n {named.name} stop")
    assert asked(f"-n {named.name} check_running").code == NODE_UNAVAILABLE
    assert asked.ok(f"-n {named.name} stop --idempotent").code == 0
    named.await_end()
    named.start()
    asked.ok(f"-n {named.name} await_startup -t 60")
