"""What warrenctl does that rabbitmqctl does not, or that needs a broker of the test's own."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from acceptance.control import Control
from broker_process import BrokerProcess
from live_broker import Connect, connection_parameters

pytestmark = pytest.mark.skipif("WARREN_TEST_BROKER" in os.environ, reason="Warren's own verbs")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker to stop, or to set alarms off on."""
    process = BrokerProcess(tmp_path)
    process.start()
    yield process
    process.stop()


@pytest.fixture
def own_control(own: BrokerProcess) -> Control:
    return Control(f"http://127.0.0.1:{own.http_port}")


def test_a_policy_is_tried_before_it_is_set(vhost: str, control: Control, connect: Connect) -> None:
    channel = connect(virtual_host=vhost).channel()
    channel.queue_declare("q", arguments={"x-max-length": 10})
    channel.queue_declare("other")
    line = f"set_policy -p {vhost} short ^q --dry-run"
    done = control.ok(line, '{"max-length":5}')
    assert "queue 'q': max-length" in done.out
    assert "other" not in done.out
    assert control.ok(f"list_policies -s -p {vhost}").out == ""
    changes = json.loads(control.ok(f"{line} --formatter json", '{"max-length":5}').out)
    assert [change["name"] for change in changes] == ["q"]
    assert (
        "Nothing would change"
        in control.ok(f"set_policy -p {vhost} short ^nothing --dry-run", '{"max-length":5}').out
    )
    refused = control(line, '{"bogus":5}')
    assert (refused.code, "Validation failed" in refused.err) == (65, True)


def test_a_policy_is_explained(vhost: str, control: Control, connect: Connect) -> None:
    channel = connect(virtual_host=vhost).channel()
    channel.queue_declare("q", arguments={"x-max-length": 3})
    control.ok(f"set_policy -p {vhost} short ^q", '{"max-length":5,"message-ttl":9}')
    control.ok(f"set_policy -p {vhost} weak --priority -1 .", '{"max-length":50}')
    text = control.ok(f"explain_policy -p {vhost} q").out
    assert "Policy: short" in text
    assert "max-length = 3, from argument" in text
    assert "prevails over 5 from policy 'short'" in text
    assert "message-ttl = 9, from policy 'short'" in text
    assert "policy 'weak' (priority -1) does not apply" in text
    missing = control(f"explain_policy -p {vhost} nosuch")
    assert (missing.code, "no queue 'nosuch'" in missing.err) == (65, True)


def test_alarms_are_set_off_and_shown(own: BrokerProcess, own_control: Control) -> None:
    own_control.ok("check_alarms")
    assert "Health check passed" in own_control.ok("node_health_check").out
    own_control.ok("set_disk_free_limit 999999GB")
    deadline = time.monotonic() + 60
    while own_control("check_local_alarms").code == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    failed = own_control("check_alarms")
    assert (failed.code, "Free disk space alarm on node" in failed.err) == (69, True)
    ill = own_control("node_health_check")
    assert (ill.code, "resource alarm(s) in effect" in ill.err) == (69, True)
    assert "disk" in own_control.ok("list_alarms -s").out
    assert "Free disk space alarm" in own_control.ok("status").out
    own_control.ok("set_disk_free_limit 1MB")
    while own_control("check_alarms").code:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_settings_of_a_running_node(own_control: Control) -> None:
    own_control.ok("set_vm_memory_high_watermark absolute 2GB")
    status = json.loads(own_control.ok("status --formatter json").out)
    assert status["vm_memory_high_watermark_limit"] == 2_000_000_000
    own_control.ok("set_vm_memory_high_watermark 0.5")
    status = json.loads(own_control.ok("status --formatter json").out)
    assert status["vm_memory_high_watermark_limit"] != 2_000_000_000
    own_control.ok("set_log_level debug")
    own_control.ok("set_cluster_name meadow")
    assert "Cluster name: meadow" in own_control.ok("cluster_status").out
    assert "heartbeat = 60" in own_control.ok("environment").out


def test_a_node_is_stopped_and_awaited(own: BrokerProcess, own_control: Control) -> None:
    own_control.ok("stop")
    assert own_control("ping").code == 69
    assert own_control.ok("stop --idempotent").code == 0
    own.stop()
    own.start()
    own_control.ok("await_startup -t 20")


def test_a_node_is_put_out_of_service_and_back(own: BrokerProcess, own_control: Control) -> None:
    """As rabbitmq-upgrade does."""
    own_control.ok("drain")
    assert "Is under maintenance?: true" in own_control.ok("status").out
    assert "marked for maintenance" in own_control.ok("cluster_status").out
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        BlockingConnection(connection_parameters(own.address))
    own_control.ok("revive")
    assert "Is under maintenance?: false" in own_control.ok("status").out
    BlockingConnection(connection_parameters(own.address)).close()


def test_a_node_that_is_reset_has_nothing_left(own: BrokerProcess, own_control: Control) -> None:
    own_control.ok("add_user somebody secret")
    channel = BlockingConnection(connection_parameters(own.address)).channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"m", pika.BasicProperties(delivery_mode=2))
    channel.connection.close()
    own_control.ok("reset --yes")
    assert own_control.ok("list_users -s").out.split()[:1] == ["guest"]
    assert "somebody" not in own_control.ok("list_users -s").out
    assert own_control.ok("list_queues -s").out == ""
    own.restart()
    assert own_control.ok("list_queues -s").out == ""


def test_the_states_of_messages_are_listed(vhost: str, control: Control, connect: Connect) -> None:
    channel = connect(virtual_host=vhost).channel()
    channel.queue_declare("tiers", durable=True)
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "tiers", b"12345", pika.BasicProperties(delivery_mode=2))
    line = f"list_queues -s -p {vhost} name alpha beta gamma delta"
    assert control.ok(line).out.split() == ["tiers", "3", "0", "0", "0"]
