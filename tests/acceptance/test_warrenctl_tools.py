"""Verbs of RabbitMQ's five tools: all are known, and work or say what to use instead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from acceptance.control import Control
from broker_process import BrokerProcess
from live_broker import connection_parameters
from warren.cli.ctl.catalogue import VERBS
from warren.cli.ctl.instead import VERBS as INSTEAD
from warren.cli.ctl.tools import TOOLS

pytestmark = pytest.mark.skipif("WARREN_TEST_BROKER" in os.environ, reason="Warren's own verbs")
PROGRAM: Final = Path(sys.executable).with_name("warrenctl")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("tools"))
    process.start()
    yield process
    process.stop()


@pytest.fixture
def ctl(own: BrokerProcess) -> Control:
    return Control(f"http://127.0.0.1:{own.http_port}")


def test_every_verb_of_the_five_tools_is_known() -> None:
    """RabbitMQ 3.10.8 has 159 of them."""
    names = {name for verbs in TOOLS.values() for name in verbs}
    assert len(names) == 159
    assert sorted(names - set(VERBS)) == []


@pytest.mark.parametrize("verb", [verb.name for verb in INSTEAD])
def test_a_verb_without_work_says_what_to_use_in_one_line(verb: str) -> None:
    done = Control("http://127.0.0.1:1")(f"{verb} a b")
    said = (done.err or done.out).removeprefix("Error:\n").strip()
    assert done.code in {0, 69}
    assert said.count("\n") == 0
    assert len(said) > 30


def test_the_program_behaves_as_the_tool_that_a_link_names(
    own: BrokerProcess, tmp_path: Path
) -> None:
    environment = {**os.environ, "WARREN_URL": f"http://127.0.0.1:{own.http_port}"}

    def run(tool: str, *line: str) -> subprocess.CompletedProcess[str]:
        link = tmp_path / tool
        if not link.exists():
            link.symlink_to(PROGRAM)
        return subprocess.run(
            [link, *line], env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    assert run("rabbitmqctl", "await_startup").returncode == 0
    assert run("rabbitmq-diagnostics", "-q", "check_running").returncode == 0
    assert run("rabbitmq-plugins", "is_enabled", "rabbitmq_management").returncode == 0
    assert run("rabbitmq-upgrade", "post_upgrade").returncode == 0
    assert "peek" in run("rabbitmq-queues", "help").stdout
    shown = run("rabbitmq-upgrade", "help").stdout
    assert "rabbitmq-upgrade [--url <url>]" in shown
    assert "list_queues" not in shown
    wrong = run("rabbitmqctl", "log_tail")
    assert wrong.returncode == 64
    assert "Did you mean 'rabbitmq-diagnostics log_tail'?" in wrong.stderr
    # RabbitMQ's exit codes, also where they differ for one mistake.
    assert run("rabbitmqctl", "delete_queue", "nosuch").returncode == 64
    assert run("rabbitmqctl", "purge_queue", "nosuch").returncode == 69


def test_one_mistake_has_one_exit_code(ctl: Control) -> None:
    for line in ("delete_queue", "purge_queue", "sync_queue", "browse_queue", "stream_status"):
        done = ctl(f"{line} nosuch")
        assert (done.code, "no queue 'nosuch' in vhost '/'" in done.err) == (65, True), done
    for line in ("set_policy p .", "set_parameter a b", "set_global_parameter x",
                 "set_vhost_limits", "set_user_limits guest"):  # fmt: skip
        done = ctl(line, '{"a": 1,, "b": 2}')
        assert done.code == 65, done
        assert "JSON decoding error. Reason: badarg" in done.err
        assert "line 1, column 9" in done.err
    assert ctl("add_user guest x").code == 65


def test_the_key_that_was_meant_is_named(ctl: Control) -> None:
    done = ctl("set_policy p .", '{"max-lenght": 1}')
    assert (done.code, "did you mean 'max-length'?" in done.err) == (65, True)
    assert "are not recognised policy settings" in done.err  # RabbitMQ's own
    done = ctl("set_policy p (", '{"max-length": 1}')
    assert (done.code, "not a regular expression: missing )" in done.err) == (65, True)
    done = ctl("set_permissions guest ( . .")
    assert (done.code, "not a regular expression: missing )" in done.err) == (65, True)


def test_an_unknown_verb_is_answered_in_a_line(ctl: Control) -> None:
    done = ctl("frobnicate")
    assert (done.code, len(done.err.strip().splitlines())) == (64, 2)


def test_feature_flags_are_listed_and_enabled(ctl: Control) -> None:
    assert ["quorum_queue", "enabled"] in ctl.ok("list_feature_flags -s").rows
    ctl.ok("enable_feature_flag quorum_queue")
    ctl.ok("enable_feature_flag all")
    assert ctl("enable_feature_flag nosuch").code == 64


def test_plugins_are_those_that_are_built_in(ctl: Control) -> None:
    assert "rabbitmq_management" in ctl.ok("list -q -m").out.split()
    ctl.ok("is_enabled rabbitmq_management rabbitmq_prometheus")
    assert ctl("is_enabled rabbitmq_mqtt").code == 69
    ctl.ok("enable rabbitmq_management")
    assert ctl("enable rabbitmq_mqtt").code == 70
    ctl.ok("disable rabbitmq_mqtt")
    assert ctl("disable rabbitmq_management").code == 69


def test_the_log_is_shown(ctl: Control) -> None:
    assert ctl.ok("log_location -q").out == "<stderr>\n"
    ctl.ok("add_user logged secret")
    tail = ctl.ok("log_tail -q -N 3").out
    assert 0 < len(tail.splitlines()) <= 3
    assert "/api/users/logged" in tail
    done = ctl("rotate_logs")
    assert (done.code, "journald" in done.err) == (69, True)


def test_a_log_file_is_written_named_and_rotated(tmp_path: Path) -> None:
    config = "log.console.formatter = json\nlog.file = rabbit.log\nlog.file.formatter = json\n"
    broker = BrokerProcess(tmp_path, config)
    broker.start()
    try:
        control = Control(f"http://127.0.0.1:{broker.http_port}")
        path = broker.data_dir / "log" / "rabbit.log"
        assert control.ok("log_location -q").out.split() == ["<stderr>", str(path)]
        control.ok("rotate_logs")
        control.ok("add_user logged secret")
        older = path.with_name("rabbit.log.1").read_text().splitlines()
        assert "node is ready" in [json.loads(line)["msg"] for line in older]
        newer = [json.loads(line) for line in path.read_text().splitlines()]
        assert [line.get("change") for line in newer][-1] == "PUT /api/users/logged"
        assert all(json.loads(line) for line in broker.log().splitlines())
    finally:
        broker.stop()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("log_tail_stream -d 3", "/api/vhosts/told"),
        ("consume_event_stream -d 3 --pattern vhost", "vhost.created"),
    ],
)
def test_lines_of_the_log_and_events_come_while_they_happen(
    ctl: Control, line: str, expected: str
) -> None:
    process = subprocess.Popen(
        [PROGRAM, "--url", ctl.url, *line.split()], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("Streaming")
    ctl.ok("add_vhost told")
    out, _ = process.communicate(timeout=60)
    ctl("delete_vhost told")
    assert process.returncode == 0
    assert expected in out
    assert "warrenctl.events" not in ctl.ok("list_queues -s").out


def test_listeners_are_suspended_and_resumed(own: BrokerProcess, ctl: Control) -> None:
    connection = BlockingConnection(connection_parameters(own.address))
    ctl.ok("suspend_listeners")
    ctl.ok("suspend_listeners")
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        BlockingConnection(connection_parameters(own.address))
    connection.channel().close()  # those who are there stay
    assert ctl("check_port_connectivity").code == 69
    ctl.ok("ping")
    ctl.ok("resume_listeners")
    BlockingConnection(connection_parameters(own.address)).close()
    ctl.ok("check_port_connectivity")
    connection.close()


def test_facts_of_a_node_and_its_machine(own: BrokerProcess, ctl: Control, tmp_path: Path) -> None:
    assert "tlsv1.3" in ctl.ok("tls_versions -q").out
    assert "TLS_AES_256_GCM_SHA384" in ctl.ok("cipher_suites -q").out
    assert "no listener uses TLS" in ctl.ok("certificates -q").out
    assert "127.0.0.1" in ctl.ok("list_network_interfaces -q").out
    assert "127.0.0.1" in ctl.ok("resolve_hostname -q localhost --address-family ipv4").out
    assert ctl("resolve_hostname no-such-host.invalid").code == 69
    assert "server" in ctl.ok("command_line_arguments -q").out
    assert "Python" in ctl.ok("erlang_version -q").out
    assert "fully booted" in ctl.ok("is_booting").out
    assert "already running" in ctl.ok("restart_vhost").out
    assert ctl("restart_vhost -p nosuch").code == 70
    assert ctl.ok("os_env").code == 0
    assert "warren@" in ctl.ok("discover_peers -q").out
    BlockingConnection(connection_parameters(own.address)).close()
    assert "amqp091" in ctl.ok("list_node_auth_attempt_stats -s").out
    ctl.ok(f"wait --pid {own.pid}")
    (tmp_path / "pid").write_text(f"{own.pid}\n")
    ctl.ok(f"wait {tmp_path / 'pid'}")
    assert ctl("wait --pid 99999999 -t 5").code == 69
    assert ctl(f"wait {tmp_path / 'nosuch'} -t 1").code == 75
    picture = ctl.ok("observer").out
    assert "memory" in picture
    assert "queue" in picture


def test_values_are_encrypted_as_rabbitmq_does(ctl: Control) -> None:
    """The first one was made by rabbitmqctl 3.10.8."""
    theirs = "m1Rj8+JXnpZCgNGL2Pwi8xQmOrW8L4abGosA4h13cTa/5ts5Ngk5nSKYw5BGpAuR"
    assert ctl.ok("decode -q", f'{{encrypted,<<"{theirs}">>}}', "pass").out == '<<"secret">>\n'
    ours = ctl.ok("encode -q", "guest", "pass").out.strip()
    assert ctl.ok("decode -q", ours, "pass").out == '<<"guest">>\n'
    assert ctl("decode -q", ours, "wrong").code == 65
    assert ctl("decode -q", "nonsense", "pass").code == 65
    assert "aes_256_cbc" in ctl.ok("list_ciphers").out
    assert "sha512" in ctl.ok("list_hashes").out


def test_a_stream_and_a_message_are_shown(own: BrokerProcess, ctl: Control) -> None:
    connection = BlockingConnection(connection_parameters(own.address))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_declare("q")
    for number in range(3):
        channel.basic_publish("", "s", b"in a stream")
        channel.basic_publish("", "q", f"body {number}".encode())
    connection.close()
    (row,) = json.loads(ctl.ok("stream_status s --formatter json").out)
    assert (row["role"], row["first_offset"], row["committed_offset"]) == ("writer", 0, 2)
    ctl.ok("stream_status s --tracking")
    assert "body 1" in ctl.ok("peek q 2").out
    assert ctl("peek q 9").code == 65
    assert ctl("stream_status q").code == 69


def test_what_is_deleted_is_said(own: BrokerProcess, ctl: Control) -> None:
    ctl.ok("add_vhost doomed")
    connection = BlockingConnection(connection_parameters(own.address, virtual_host="doomed"))
    channel = connection.channel()
    channel.confirm_delivery()
    for name in ("one", "two"):
        channel.queue_declare(name, durable=True)
        for _ in range(3):
            channel.basic_publish("", name, b"m")
    connection.close()
    assert "3 messages were purged" in ctl.ok("purge_queue -p doomed one").out
    assert "with 3 ready messages" in ctl.ok("delete_queue -p doomed two").out
    refused = ctl("reset")
    assert (refused.code, "Give --yes" in refused.err) == (64, True)
    assert "classic 'one' in vhost 'doomed'" in refused.err
    assert "users, permissions" in ctl.ok("reset --dry-run").out
    assert "1 queues were deleted with 0 messages" in ctl.ok("delete_vhost doomed").out
