"""The life of a channel: opened once, closed once, its number used again."""

from __future__ import annotations

from acceptance.raw_client import Login
from live_broker import ConnectRaw, Names


def test_a_closed_channel_number_can_be_opened_again(raw: ConnectRaw) -> None:
    """T021: close 1, open 1."""
    client = raw()
    client.call(1, "channel.close", reply_code=200, reply_text="done")
    client.call(1, "channel.open")


def test_a_channel_closed_by_an_error_can_be_opened_again(raw: ConnectRaw, names: Names) -> None:
    """T021: after close-ok of the broker's own close the number is free."""
    client = raw()
    client.send(1, "queue.declare", queue=names("missing"), passive=True)
    client.expect_channel_close(1, 404)
    client.call(1, "channel.open")


def test_a_close_that_crosses_the_brokers_own_is_answered_and_the_number_stays_taken(
    raw: ConnectRaw, names: Names
) -> None:
    """A client that pipelines open, a mistake and close gets both closes right, as with RabbitMQ.

    Its close-ok answers the broker's close; only then may the number be used again.
    """
    client = raw()
    client.send(1, "queue.declare", queue=names("missing"), passive=True)
    client.send(1, "channel.close", reply_code=200, reply_text="done")
    assert client.expect(1, "channel.close").reply_code == 404
    client.expect(1, "channel.close-ok")
    client.send(1, "channel.close-ok")
    client.call(1, "channel.open")


def test_a_number_is_taken_until_the_brokers_close_is_answered(
    raw: ConnectRaw, names: Names
) -> None:
    client = raw()
    client.send(1, "queue.declare", queue=names("missing"), passive=True)
    client.send(1, "channel.close", reply_code=200, reply_text="done")
    client.expect(1, "channel.close")
    client.expect(1, "channel.close-ok")
    client.send(1, "channel.open")
    client.expect_connection_close(504)


def test_a_stray_close_ok_after_a_close_is_ignored(raw: ConnectRaw) -> None:
    client = raw()
    client.call(1, "channel.close", reply_code=200, reply_text="done")
    client.send(1, "channel.close-ok")
    client.call(1, "channel.open")


def test_every_close_of_a_closing_channel_is_answered(raw: ConnectRaw, names: Names) -> None:
    client = raw()
    client.send(1, "queue.declare", queue=names("missing"), passive=True)
    for _ in range(2):
        client.send(1, "channel.close", reply_code=200, reply_text="done")
    client.expect(1, "channel.close")
    for _ in range(2):
        client.expect(1, "channel.close-ok")
    client.send(1, "channel.close-ok")
    client.call(1, "channel.open")


def test_a_close_ok_of_an_open_channel_is_no_command(raw: ConnectRaw) -> None:
    client = raw()
    client.send(1, "channel.close-ok")
    client.expect_connection_close(503)


def test_more_channels_than_negotiated_end_the_connection(raw: ConnectRaw) -> None:
    """T022: two negotiated, the third open is refused with 530."""
    client = raw(Login(channel_max=2), channels=2)
    client.send(3, "channel.open")
    close = client.expect_connection_close(530)
    assert close.reply_text == (
        "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    )


def test_a_method_on_a_channel_never_opened_is_a_channel_error(raw: ConnectRaw) -> None:
    """T023: basic.get on channel 5 ends the connection with 504."""
    client = raw()
    client.send(5, "basic.get", queue="whatever")
    close = client.expect_connection_close(504)
    assert close.reply_text == "CHANNEL_ERROR - expected 'channel.open'"


def test_opening_a_channel_twice_is_a_channel_error(raw: ConnectRaw) -> None:
    """T024: the second channel.open ends the connection with 504."""
    client = raw()
    client.send(1, "channel.open")
    close = client.expect_connection_close(504)
    assert close.reply_text == "CHANNEL_ERROR - second 'channel.open' seen"


def test_a_failed_channel_leaves_its_neighbours_alone(raw: ConnectRaw, names: Names) -> None:
    """T021: a soft error is the end of one channel only."""
    client = raw(channels=2)
    client.send(1, "queue.declare", queue=names("missing"), passive=True)
    client.expect_channel_close(1, 404)
    client.call(2, "queue.declare", queue=names("queue"))


def test_a_closing_channel_ignores_what_was_already_sent(raw: ConnectRaw, names: Names) -> None:
    """T021: pipelined methods after the failing one are dropped, not executed or answered."""
    client, queue = raw(channels=2), names("queue")
    client.send(1, "queue.declare", queue=names("missing"), passive=True)
    client.send(1, "queue.declare", queue=queue)
    client.expect_channel_close(1, 404)
    client.send(2, "queue.declare", queue=queue, passive=True)
    client.expect_channel_close(2, 404)


def test_channel_flow_cannot_be_switched_off(raw: ConnectRaw) -> None:
    """T080: flow active=true is answered, active=false is not implemented."""
    client = raw()
    assert client.call(1, "channel.flow", active=True).active is True
    client.send(1, "channel.flow", active=False)
    assert client.expect_connection_close(540).reply_text == "NOT_IMPLEMENTED - active=false"
