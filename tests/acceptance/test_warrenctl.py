"""warrenctl at work on a broker: what it lists is there, what it sets is set."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pika
import pytest

from acceptance.control import Control
from acceptance.management_client import Api
from live_broker import Connect

# Of looks a tenth of a second apart.
TRIES: Final = 300
PROGRAM: Final = Path(sys.executable).with_name("warrenctl")


def declare(connect: Connect, vhost: str, *queues: str) -> pika.channel.Channel:
    channel = connect(virtual_host=vhost).channel()
    for queue in queues:
        channel.queue_declare(queue, durable=True, arguments={"x-max-length": 10})
    return channel


def test_queues_are_listed_in_every_format(vhost: str, control: Control, connect: Connect) -> None:
    """T171: tab-separated with a header, json that parses, csv that parses."""
    channel = declare(connect, vhost, "a", "b c")
    channel.basic_publish("", "a", b"12345", pika.BasicProperties(delivery_mode=2))
    columns = "name messages_ready durable arguments"
    expected = [["a", "1", "true", '[{"x-max-length",10}]'],
                ["b c", "0", "true", '[{"x-max-length",10}]']]  # fmt: skip

    eventually_lists(control, f"list_queues -s -p {vhost} {columns}", expected)
    table = control.ok(f"list_queues -p {vhost} {columns}")
    assert table.out.splitlines()[:3] == [
        "Timeout: 60.0 seconds ...",
        f"Listing queues for vhost {vhost} ...",
        columns.replace(" ", "\t"),
    ]
    parsed = json.loads(control.ok(f"list_queues -p {vhost} {columns} --formatter json").out)
    assert parsed[0] == {
        "name": "a",
        "messages_ready": 1,
        "durable": True,
        "arguments": [["x-max-length", "signedint", 10]],
    }
    rows = control.ok(f"list_queues -p {vhost} {columns} --formatter csv").out.splitlines()
    assert list(csv.reader(rows)) == [columns.split(), *expected]


def eventually_lists(control: Control, line: str, expected: list[list[str]]) -> None:
    """A reference broker counts messages every five seconds."""
    for _ in range(TRIES):
        done = control.ok(line)
        if sorted(done.rows) == expected:
            return
        time.sleep(0.1)
    assert sorted(done.rows) == expected


def test_exit_codes_of_the_program(api: Api) -> None:
    """T172: unknown user 67, bad arguments 64, node down 69."""
    url = f"http://{api.address.host}:{api.address.port}"

    def code(*line: str) -> int:
        done = subprocess.run([PROGRAM, *line], capture_output=True, check=False, timeout=120)
        return done.returncode

    assert code("--url", url, "list_users") == 0
    assert code("--url", url, "delete_user", "nobody") == 67
    assert code("--url", url, "list_queues", "--bogus") == 64
    assert code("--url", url, "list_policies", "-p", "nowhere") == 65
    assert code("--url", "http://127.0.0.1:1", "list_queues") == 69
    assert code("--url", url, "--password", "wrong", "list_queues") == 69


def test_listings_of_what_clients_do(vhost: str, control: Control, connect: Connect) -> None:
    channel = declare(connect, vhost, "q")
    channel.exchange_declare("x", "topic", auto_delete=True)
    channel.queue_bind("q", "x", "a.#", arguments={"h": "v"})
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("q", lambda *_: None, consumer_tag="me", arguments={"x-priority": 5})

    exchanges = control.ok(f"list_exchanges -s -p {vhost} name type auto_delete").rows
    assert ["x", "topic", "true"] in exchanges
    assert ["", "direct", "false"] in exchanges
    bindings = control.ok(f"list_bindings -s -p {vhost}").rows
    assert ["x", "exchange", "q", "queue", "a.#", '[{"h","v"}]'] in bindings
    assert ["", "exchange", "q", "queue", "q", "[]"] in bindings
    columns = "queue_name consumer_tag ack_required prefetch_count active arguments"
    expected = [["q", "me", "true", "7", "true", '[{"x-priority",5}]']]
    eventually_lists(control, f"list_consumers -s -p {vhost} {columns}", expected)


def test_connections_and_channels_are_listed_and_closed(
    vhost: str, control: Control, connect: Connect
) -> None:
    connection = connect(virtual_host=vhost)
    connection.channel().confirm_delivery()
    pid = pid_of_connection(control, vhost)
    channels = control.ok("list_channels -s connection vhost number confirm").rows
    assert [pid, vhost, "1", "true"] in channels

    assert "Closing connection" in control.ok("close_connection", pid, "go away now").out
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(time_limit=60)
    assert closed.value.reply_code == 320
    assert "go away now" in closed.value.reply_text


def pid_of_connection(control: Control, vhost: str) -> str:
    for _ in range(TRIES):
        rows = control.ok("list_connections -s vhost pid user state").rows
        mine = [row for row in rows if row[0] == vhost]
        if mine and mine[0][2:] == ["guest", "running"]:
            return mine[0][1]
        time.sleep(0.1)
    raise AssertionError(rows)


def test_all_connections_of_a_vhost_are_closed(
    vhost: str, control: Control, connect: Connect
) -> None:
    connections = [connect(virtual_host=vhost) for _ in range(3)]
    pid_of_connection(control, vhost)
    for _ in range(TRIES):
        if len([r for r in control.ok("list_connections -s vhost").rows if r == [vhost]]) == 3:
            break
        time.sleep(0.1)
    done = control.ok(f"close_all_connections -p {vhost} bye")
    assert done.out.endswith("Closed 3 connections\n")
    for connection in connections:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            connection.process_data_events(time_limit=60)


def test_queues_are_purged_and_deleted(vhost: str, control: Control, connect: Connect) -> None:
    channel = declare(connect, vhost, "q", "used")
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"x")
    channel.basic_consume("used", lambda *_: None)
    refused = control(f"delete_queue -p {vhost} q --if-empty")
    assert (refused.code, refused.err) == (64, "Error:\nQueue is not empty\n")
    refused = control(f"delete_queue -p {vhost} used --if-unused")
    assert (refused.code, refused.err) == (64, "Error:\nQueue is in use\n")
    control.ok(f"purge_queue -p {vhost} q")
    assert channel.queue_declare("q", passive=True).method.message_count == 0
    done = control.ok(f"delete_queue -p {vhost} q --if-empty")
    assert done.out == (
        f"Deleting queue 'q' on vhost '{vhost}' if queue is empty ...\n"
        "Queue was successfully deleted with 0 ready messages\n"
    )
    refused = control.called("rabbitmqctl")(f"sync_queue -p {vhost} used")
    assert (refused.code, refused.err) == (69, "Error:\nnot_mirrored\n")
    assert control.ok(f"cancel_sync_queue -q -p {vhost} used").out == "not_syncing\n"


def test_5_16_only_a_mirrored_queue_can_be_synchronised(
    vhost: str, control: Control, connect: Connect
) -> None:
    declare(connect, vhost, "alone")
    rabbitmqctl = control.called("rabbitmqctl")
    refused = rabbitmqctl(f"sync_queue -p {vhost} alone")
    assert (refused.code, refused.err) == (69, "Error:\nnot_mirrored\n")
    missing = rabbitmqctl(f"sync_queue -p {vhost} missing")
    assert missing.code == 69
    assert missing.err == "Error:\nnot_found\n"


def test_a_user_can_be_made_to_work_with_it(vhost: str, control: Control, connect: Connect) -> None:
    """What the hint of add_user asks for, and what the verbs are for."""
    try:
        assert "set_permissions" in control.ok("add_user worker first").out
        control.ok("change_password worker second")
        control.ok("set_user_tags worker monitoring")
        control.ok(f"set_permissions -p {vhost} worker .* .* .*")
        assert ["worker", "[monitoring]"] in control.ok("list_users").rows
        credentials = pika.PlainCredentials("worker", "second")
        connect(virtual_host=vhost, credentials=credentials).channel().queue_declare("mine")
    finally:
        control("delete_user worker")


def test_definitions_go_through_a_file(vhost: str, control: Control, tmp_path: Path) -> None:
    place = tmp_path / "definitions.json"
    control.ok(f"set_policy -p {vhost} short ^q", '{"max-length":5}')
    control.ok(f"export_definitions {place}")
    exported = json.loads(place.read_text())
    assert {"vhost": vhost, "name": "short"}.items() <= next(
        policy for policy in exported["policies"] if policy["vhost"] == vhost
    ).items()
    control.ok(f"clear_policy -p {vhost} short")
    control.ok(f"import_definitions {place}")
    assert control.ok(f"list_policies -s -p {vhost}").rows == [
        [vhost, "short", "^q", "all", '{"max-length":5}', "0"]
    ]
    place.write_text("{")
    assert control(f"import_definitions {place}").code == 65


def test_a_status_for_people_and_one_for_programs(control: Control) -> None:
    text = control.ok("status").out
    titles = (
        "Runtime", "Plugins", "Data directory", "Config files", "Log file(s)", "Alarms", "Memory",
        "File Descriptors", "Free Disk Space", "Totals", "Listeners",
    )  # fmt: skip
    assert [line for line in text.splitlines() if line in titles] == list(titles)
    status = json.loads(control.ok("status --formatter json").out)
    assert status["rabbitmq_version"].startswith("3.")
    assert status["totals"]["virtual_host_count"] >= 1
    assert status["memory"]["total"]["rss"] > 0
    assert "Running Nodes" in control.ok("cluster_status").out
    assert "gb (" in control.ok("memory_breakdown").out


def test_ports_are_checked(api: Api, control: Control) -> None:
    control.ok(f"check_port_listener {api.address.port}")
    missing = control("check_port_listener 1")
    assert missing.code == 69
    assert str(api.address.port) in missing.err
    control.ok("check_protocol_listener amqp")
    assert control("check_protocol_listener mqtt").code == 69
    control.ok("check_port_connectivity")


def test_a_report_holds_what_every_verb_says(vhost: str, control: Control) -> None:
    text = control.ok("report").out
    for title in ("== status", "== cluster_status", f"== list_queues {vhost}", "== list_users"):
        assert title in text
    assert "Traceback" not in text
