"""Settings that change what a client may do, each with a broker started for it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.actions import eventually
from acceptance.raw_client import Login, RawClient
from broker_process import Address, BrokerProcess


@pytest.fixture
def configured(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BrokerProcess]:
    """A broker that reads the configuration given as the fixture's parameter."""
    process = BrokerProcess(tmp_path, config=request.param)
    process.start()
    yield process
    process.stop()


@pytest.mark.parametrize("configured", ["max_message_size = 1024\n"], indirect=True)
def test_a_message_may_be_too_big(configured: BrokerProcess) -> None:
    """T149: with a limit of 1024 bytes 1024 pass and 1025 are a 406."""
    with RawClient(configured.address).open() as client:
        queue = client.call(1, "queue.declare", exclusive=True).queue
        client.publish(1, b"x" * 1024, routing_key=queue)
        message = client.get(1, queue)
        assert message is not None
        client.publish(1, b"x" * 1025, routing_key=queue)
        close = client.expect_channel_close(1, 406)
        assert close.reply_text == (
            "PRECONDITION_FAILED - message size 1025 is larger than configured max size 1024"
        )


@pytest.mark.parametrize(
    "configured", ["consumer_timeout = 500\nchannel_tick_interval = 200\n"], indirect=True
)
def test_a_consumer_that_never_acknowledges_loses_its_channel(configured: BrokerProcess) -> None:
    """T150: 406 within timeout and tick; the message is ready again for others."""
    with RawClient(configured.address).open(channels=2) as client:
        queue = client.call(1, "queue.declare", exclusive=True).queue
        client.publish(1, b"held", routing_key=queue)
        client.call(1, "basic.consume", queue=queue)
        client.expect_content(1, "basic.deliver")
        close = client.expect_channel_close(1, 406)
        assert close.reply_text == (
            "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. "
            "Timeout value used: 500 ms. This timeout value can be configured, "
            "see consumers doc guide to learn more"
        )
        message = client.get(2, queue)
        assert message is not None
        assert (message.body, message.method.redelivered) == (b"held", True)


@pytest.mark.parametrize(
    "configured", ["heartbeat = 7\nchannel_max = 100\nframe_max = 8192\n"], indirect=True
)
def test_the_offer_can_be_configured(configured: BrokerProcess) -> None:
    """T004: tune tells what the file says."""
    with RawClient(configured.address) as client:
        tune = client.log_in(Login())
        assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (100, 8192, 7)


@pytest.mark.parametrize(
    ("configured", "reason"),
    [
        ("vm_memory_high_watermark.absolute = 1MiB\n", "low on memory"),
        ("vm_memory_high_watermark.relative = 0.00001\n", "low on memory"),
        ("disk_free_limit.absolute = 900000GB\n", "low on disk"),
        ("disk_free_limit.relative = 999.5\n", "low on disk"),
    ],
    indirect=["configured"],
)
def test_limits_can_be_configured(configured: BrokerProcess, reason: str) -> None:
    """S22, from the configuration file; the log says what happened."""
    with RawClient(configured.address).open() as client:
        client.publish(1, b"held", routing_key="nowhere")
        assert client.expect(0, "connection.blocked").reason == reason
    alarm = reason.removeprefix("low on ")
    line = f"{alarm} resource limit alarm set on node"
    eventually(lambda: line in configured.log())


@pytest.mark.parametrize("configured", ["vm_memory_high_watermark.relative = 0\n"], indirect=True)
def test_a_blocked_client_hears_of_the_brokers_end(configured: BrokerProcess) -> None:
    with RawClient(configured.address).open() as client:
        client.publish(1, b"held", routing_key="nowhere")
        client.expect(0, "connection.blocked")
        os.kill(configured.pid, signal.SIGTERM)
        client.expect_connection_close(320)


@pytest.mark.parametrize(
    "configured",
    ["vm_memory_high_watermark.absolute = 2GB\ndisk_free_limit.absolute = 1kB\n"],
    indirect=True,
)
def test_limits_that_are_kept_hold_nobody_up(configured: BrokerProcess) -> None:
    with RawClient(configured.address).open() as client:
        client.call(1, "confirm.select")
        client.publish(1, b"through", routing_key="nowhere")
        client.expect(1, "basic.ack")
    assert "alarm" not in configured.log()


def outward_address() -> str:
    """An address of this machine that is not loopback; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])


@pytest.mark.parametrize(("config", "welcome"), [("", False), ("loopback_users = none\n", True)])
def test_guest_may_come_from_loopback_only(tmp_path: Path, config: str, welcome: bool) -> None:
    """T010: from elsewhere the login is refused, unless the configuration allows it."""
    host = outward_address()
    process = BrokerProcess(tmp_path, config, bind="0.0.0.0")
    process.start()
    try:
        with RawClient(Address(host, process.address.port)) as client:
            client.greet()
            client.send(
                0,
                "connection.start-ok",
                client_properties=Login().client_properties,
                mechanism="PLAIN",
                response=Login().plain,
                locale="en_US",
            )
            if welcome:
                client.expect(0, "connection.tune")
            else:
                assert "Login was refused" in client.expect_connection_close(403).reply_text
    finally:
        process.stop()


def test_definitions_are_there_before_the_first_client(tmp_path: Path) -> None:
    definitions = tmp_path / "definitions.json"
    definitions.write_text(
        '{"vhosts": [{"name": "/"}], "queues": [{"name": "loaded", "vhost": "/", "durable": true,'
        ' "auto_delete": false, "arguments": {}}]}'
    )
    process = BrokerProcess(tmp_path, config=f"load_definitions = {definitions}\n")
    process.start()
    try:
        with RawClient(process.address).open() as client:
            declared = client.call(1, "queue.declare", queue="loaded", passive=True)
            assert declared.queue == "loaded"
    finally:
        process.stop()


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot read"), ("{", "failed_to_parse_json")]
)
def test_definitions_that_make_no_sense_end_the_start_and_are_named(
    tmp_path: Path, content: str | None, words: str
) -> None:
    definitions = tmp_path / "definitions.json"
    if content is not None:
        definitions.write_text(content)
    process = BrokerProcess(tmp_path, config=f"load_definitions = {definitions}\n")
    with pytest.raises(AssertionError) as failed:
        process.start()
    assert str(definitions) in str(failed.value)
    assert words in str(failed.value)
