"""What clients notice when the broker is short of something: publishers wait, others do not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from acceptance.actions import eventually
from acceptance.alarm_control import (
    DISK_DEFAULT,
    MEMORY_DEFAULT,
    MORE_THAN_ANY_DISK,
    AlarmControl,
    make_alarm_control,
)
from acceptance.raw_client import (
    BODY,
    HEADER,
    HEARTBEAT,
    ConnectionEnded,
    Login,
    RawClient,
    header_payload,
)

Open = Callable[..., RawClient]
MIB = 2**20
# Heartbeats of one second: a peer is given up after two to three of silence.
HEARTBEAT_S = 1
SILENCE_S = 4.0
WITHOUT_BLOCKED = ("basic.nack", "publisher_confirms", "consumer_cancel_notify")
# More than sockets take in on both sides, so that sending it needs a broker that reads.
UNREADABLE_BYTES = 64 * MIB


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlarmControl]:
    control = make_alarm_control(tmp_path_factory.mktemp("alarms"))
    yield control
    control.stop()


@pytest.fixture
def alarms(control: AlarmControl) -> Iterator[AlarmControl]:
    """No alarm at the beginning, none at the end."""
    control.set_memory_watermark(MEMORY_DEFAULT)
    control.set_disk_free_limit(DISK_DEFAULT)
    yield control
    control.set_memory_watermark(MEMORY_DEFAULT)
    control.set_disk_free_limit(DISK_DEFAULT)


@pytest.fixture
def open_client(alarms: AlarmControl) -> Iterator[Open]:
    with contextlib.ExitStack() as opened:

        def open_client(login: Login | None = None, channels: int = 1) -> RawClient:
            client = opened.enter_context(RawClient(alarms.address))
            return client.open(login, channels)

        yield open_client


def publisher(open_client: Open, login: Login | None = None) -> tuple[RawClient, str]:
    """Confirming on channel 1, with a queue of its own."""
    client = open_client(login, channels=2)
    queue = client.call(1, "queue.declare", exclusive=True).queue
    client.call(1, "confirm.select")
    return client, queue


def expect_blocked(client: RawClient) -> str:
    reason = client.expect(0, "connection.blocked").reason
    assert isinstance(reason, str)
    return reason


def expect_one_confirm(client: RawClient) -> None:
    ack = client.expect(1, "basic.ack")
    assert (ack.delivery_tag, ack.multiple) == (1, False)


def expect_only_heartbeats(client: RawClient, seconds: float) -> int:
    """Returns how many came."""
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        frame = client.receive()
        assert frame.type == HEARTBEAT, f"expected heartbeats, got {frame}"
        count += 1
    return count


def test_a_publisher_is_blocked_while_memory_is_short(
    alarms: AlarmControl, open_client: Open
) -> None:
    """S17, T158: the publish is answered by connection.blocked, and confirmed after unblocked."""
    client, queue = publisher(open_client)
    alarms.set_memory_watermark(0)
    client.publish(1, b"held", routing_key=queue)
    assert expect_blocked(client) == "low on memory"
    client.expect_silence()
    alarms.set_memory_watermark(MEMORY_DEFAULT)
    client.expect(0, "connection.unblocked")
    expect_one_confirm(client)
    message = client.get(1, queue)
    assert message is not None
    assert message.body == b"held"


def test_a_second_publish_tells_nothing_new(alarms: AlarmControl, open_client: Open) -> None:
    """Once per episode; the next episode is told again."""
    client, queue = publisher(open_client)
    for count in (1, 2):
        alarms.set_memory_watermark(0)
        client.publish(1, b"a", routing_key=queue)
        assert expect_blocked(client) == "low on memory"
        client.publish(1, b"b", routing_key=queue)
        client.expect_silence()
        alarms.set_memory_watermark(MEMORY_DEFAULT)
        client.expect(0, "connection.unblocked")
        confirmed = 0
        while confirmed < 2 * count:
            confirmed = client.expect(1, "basic.ack").delivery_tag


def test_a_connection_that_does_not_publish_is_left_alone(
    alarms: AlarmControl, open_client: Open
) -> None:
    """S18: it consumes, acknowledges, declares and gets as ever, and hears nothing of it."""
    client, queue = publisher(open_client)
    client.publish(1, b"1", routing_key=queue)
    client.publish(1, b"2", routing_key=queue)
    while client.expect(1, "basic.ack").delivery_tag < 2:
        pass
    alarms.set_memory_watermark(0)
    client.call(2, "basic.consume", queue=queue)
    for body in (b"1", b"2"):
        delivery = client.expect_content(2, "basic.deliver")
        assert delivery.body == body
        client.send(2, "basic.ack", delivery_tag=delivery.method.delivery_tag)
    other = client.call(1, "queue.declare", exclusive=True).queue
    assert client.get(1, other) is None
    client.expect_silence()


def test_the_states_are_shown(alarms: AlarmControl, open_client: Open) -> None:
    """running; blocking once there is an alarm; blocked once it has published."""
    client, queue = publisher(open_client)
    open_client()
    eventually(lambda: alarms.connection_states() == ["running", "running"])
    alarms.set_memory_watermark(0)
    eventually(lambda: alarms.connection_states() == ["blocking", "blocking"])
    client.publish(1, b"held", routing_key=queue)
    expect_blocked(client)
    eventually(lambda: alarms.connection_states() == ["blocked", "blocking"])
    alarms.set_memory_watermark(MEMORY_DEFAULT)
    client.expect(0, "connection.unblocked")
    eventually(lambda: alarms.connection_states() == ["running", "running"])


def test_a_publisher_is_blocked_while_the_disk_is_short(
    alarms: AlarmControl, open_client: Open
) -> None:
    """S19: the reason says so."""
    client, queue = publisher(open_client)
    alarms.set_disk_free_limit(MORE_THAN_ANY_DISK)
    client.publish(1, b"held", routing_key=queue)
    assert expect_blocked(client) == "low on disk"
    alarms.set_disk_free_limit(DISK_DEFAULT)
    client.expect(0, "connection.unblocked")
    expect_one_confirm(client)


def test_two_shortages_are_one_reason(alarms: AlarmControl, open_client: Open) -> None:
    """S19: told together, and over when both are over."""
    client, queue = publisher(open_client)
    alarms.set_memory_watermark(0)
    alarms.set_disk_free_limit(MORE_THAN_ANY_DISK)
    client.publish(1, b"held", routing_key=queue)
    assert expect_blocked(client) == "low on disk & memory"
    alarms.set_memory_watermark(MEMORY_DEFAULT)
    client.expect_silence()
    alarms.set_disk_free_limit(DISK_DEFAULT)
    client.expect(0, "connection.unblocked")
    expect_one_confirm(client)


def test_a_blocked_connection_is_still_delivered_to(
    alarms: AlarmControl, open_client: Open
) -> None:
    """S20: what comes back to its queue from somebody else reaches its consumer."""
    client = open_client(channels=2)
    holder = open_client()
    queue = client.call(1, "queue.declare", queue="alarms-delivered", auto_delete=True).queue
    client.publish(1, b"travels", routing_key=queue)
    eventually(lambda: holder.get(1, queue, no_ack=False) is not None)
    client.call(2, "basic.consume", queue=queue)
    alarms.set_memory_watermark(0)
    client.publish(1, b"held", routing_key=queue)
    expect_blocked(client)
    holder.drop()
    delivery = client.expect_content(2, "basic.deliver")
    assert (delivery.body, delivery.method.redelivered) == (b"travels", True)
    client.expect_silence()


def test_heartbeats_go_on_and_silence_is_forgiven_while_blocked(
    alarms: AlarmControl, open_client: Open
) -> None:
    """S20, T159: the client is sent heartbeats, need not send any, and is alive afterwards."""
    client, queue = publisher(open_client, Login(heartbeat=HEARTBEAT_S))
    alarms.set_memory_watermark(0)
    client.publish(1, b"held", routing_key=queue)
    expect_blocked(client)
    assert expect_only_heartbeats(client, SILENCE_S) >= 2
    alarms.set_memory_watermark(MEMORY_DEFAULT)
    client.expect(0, "connection.unblocked")
    expect_one_confirm(client)


def test_silence_counts_again_once_unblocked(alarms: AlarmControl, open_client: Open) -> None:
    client, queue = publisher(open_client, Login(heartbeat=HEARTBEAT_S))
    alarms.set_memory_watermark(0)
    client.publish(1, b"held", routing_key=queue)
    expect_blocked(client)
    alarms.set_memory_watermark(MEMORY_DEFAULT)
    client.expect(0, "connection.unblocked")
    expect_one_confirm(client)
    with pytest.raises(ConnectionEnded):
        expect_only_heartbeats(client, 4 * SILENCE_S)


def test_a_blocked_client_that_vanishes_is_noticed(alarms: AlarmControl, open_client: Open) -> None:
    """By the heartbeats nobody takes: its exclusive queue is free again."""
    client = open_client(Login(heartbeat=HEARTBEAT_S))
    other = open_client()
    client.call(1, "queue.declare", queue="alarms-vanished", exclusive=True)
    alarms.set_memory_watermark(0)
    client.publish(1, b"held", routing_key="alarms-vanished")
    expect_blocked(client)
    client.drop()

    def is_gone() -> bool:
        other.send(1, "queue.declare", queue="alarms-vanished", exclusive=True)
        if other.receive().payload[:4] == bytes([0, 50, 0, 11]):
            return True
        other.send(1, "channel.close-ok")
        other.call(1, "channel.open")
        return False

    eventually(is_gone)


def test_a_client_that_does_not_know_the_word_is_told_nothing(
    alarms: AlarmControl, open_client: Open
) -> None:
    """S21: its publishes wait all the same."""
    client, queue = publisher(open_client, Login(capabilities=WITHOUT_BLOCKED))
    alarms.set_memory_watermark(0)
    client.publish(1, b"held", routing_key=queue)
    client.expect_silence(0.5)
    alarms.set_memory_watermark(MEMORY_DEFAULT)
    expect_one_confirm(client)


def test_whoever_connects_during_an_alarm_learns_of_it_by_publishing(
    alarms: AlarmControl, open_client: Open
) -> None:
    """S22."""
    alarms.set_memory_watermark(0)
    client, queue = publisher(open_client)
    client.expect_silence()
    client.publish(1, b"held", routing_key=queue)
    assert expect_blocked(client) == "low on memory"


def test_a_header_is_enough_to_be_blocked(alarms: AlarmControl, open_client: Open) -> None:
    """The method alone is not; the body comes through when the alarm is over."""
    client, queue = publisher(open_client)
    alarms.set_memory_watermark(0)
    client.send(1, "basic.publish", routing_key=queue)
    client.expect_silence()
    client.send_frame(HEADER, 1, header_payload(5, b"\0\0"))
    assert expect_blocked(client) == "low on memory"
    client.send_frame(BODY, 1, b"hello")
    client.expect_silence()
    alarms.set_memory_watermark(MEMORY_DEFAULT)
    client.expect(0, "connection.unblocked")
    expect_one_confirm(client)
    message = client.get(1, queue)
    assert message is not None
    assert message.body == b"hello"


def test_a_large_body_is_not_taken_in_during_an_alarm(
    alarms: AlarmControl, open_client: Open
) -> None:
    """What does not fit into sockets stays with the client until the alarm is over."""
    client, queue = publisher(open_client)
    alarms.set_memory_watermark(0)
    client.send(1, "basic.publish", routing_key=queue)
    client.send_frame(HEADER, 1, header_payload(UNREADABLE_BYTES, b"\0\0"))
    piece = bytes(MIB // 16)
    sent = 0
    client.socket.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        while sent < UNREADABLE_BYTES:
            client.send_frame(BODY, 1, piece)
            sent += len(piece)
    assert sent < UNREADABLE_BYTES // 2
    assert expect_blocked(client) == "low on memory"


def test_all_that_was_sent_after_the_publish_waits_with_it_in_order(
    alarms: AlarmControl, open_client: Open
) -> None:
    client, queue = publisher(open_client)
    alarms.set_memory_watermark(0)
    bodies = [b"%d" % number for number in range(50)]
    for body in bodies:
        client.publish(2, body, routing_key=queue)
    client.send(2, "queue.declare", queue=queue, passive=True)
    expect_blocked(client)
    client.expect_silence()
    alarms.set_memory_watermark(MEMORY_DEFAULT)
    client.expect(0, "connection.unblocked")
    client.expect(2, "queue.declare-ok")
    client.call(2, "basic.consume", queue=queue, no_ack=True)
    assert [client.expect_content(2, "basic.deliver").body for _ in bodies] == bodies


def test_everybody_who_was_blocked_goes_on(alarms: AlarmControl, open_client: Open) -> None:
    """More of them than are woken at a time."""
    publishers = [publisher(open_client) for _ in range(40)]
    alarms.set_memory_watermark(0)
    for client, queue in publishers:
        client.publish(1, b"held", routing_key=queue)
        expect_blocked(client)
    alarms.set_memory_watermark(MEMORY_DEFAULT)
    for client, _queue in publishers:
        client.expect(0, "connection.unblocked")
        expect_one_confirm(client)


def test_an_alarm_under_load_loses_nothing(alarms: AlarmControl, open_client: Open) -> None:
    """Set and cleared again and again in the middle of a stream of publishes."""
    client, queue = publisher(open_client)
    total = 2_000
    for number in range(total):
        if number % 400 == 200:
            alarms.set_memory_watermark(0)
        client.publish(1, b"%d" % number, routing_key=queue)
        if number % 400 == 200:
            alarms.set_memory_watermark(MEMORY_DEFAULT)
    confirmed = 0
    while confirmed < total:
        frame = client.receive()
        if frame.channel == 1:
            confirmed = int.from_bytes(frame.payload[4:12])
    client.call(2, "basic.consume", queue=queue, no_ack=True)
    for number in range(total):
        assert client.expect_content(2, "basic.deliver").body == b"%d" % number
