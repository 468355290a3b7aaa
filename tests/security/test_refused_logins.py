"""A client that was refused cannot use the connection for anything but its end."""

from __future__ import annotations

import pytest

from acceptance.raw_client import METHOD, ConnectionEnded, Login, RawClient, frame_bytes
from acceptance.raw_methods import encode_method
from broker_process import BrokerProcess

BLOCKED = frame_bytes(METHOD, 0, bytes([0, 10, 0, 99]))
MANY = BLOCKED * 5_461
FLOOD_BYTES = 40_000_000


def refused(broker: BrokerProcess, capabilities: tuple[str, ...]) -> RawClient:
    login = Login("nobody", "wrong", capabilities=capabilities)
    client = RawClient(broker.address)
    client.greet()
    client.send(
        0, "connection.start-ok", client_properties=login.client_properties, mechanism="PLAIN",
        response=login.plain, locale="en_US",
    )  # fmt: skip
    return client


@pytest.mark.parametrize("capabilities", [("authentication_failure_close",), ()])
def test_a_flood_after_the_refusal_ends_the_connection(
    broker: BrokerProcess, capabilities: tuple[str, ...]
) -> None:
    memory, cpu_s = broker.resident_bytes(), broker.cpu_s()
    sent = 0
    with refused(broker, capabilities) as client:
        if capabilities:
            assert client.expect(0, "connection.close").reply_code == 403
        try:
            while sent < FLOOD_BYTES:
                client.send_bytes(MANY)
                sent += len(MANY)
        except (ConnectionError, TimeoutError):
            pass
        assert sent < FLOOD_BYTES, "the broker reads on and on"
    assert broker.cpu_s() - cpu_s < 1.0
    assert broker.resident_bytes() - memory < 20_000_000


def test_contents_after_the_refusal_are_not_collected(broker: BrokerProcess) -> None:
    memory = broker.resident_bytes()
    with refused(broker, ("authentication_failure_close",)) as client:
        client.expect(0, "connection.close")
        large = b"".join(
            frame_bytes(METHOD, number, encode_method("basic.publish", exchange="", routing_key=""))
            + frame_bytes(2, number, b"\0\x3c\0\0" + (100_000_000).to_bytes(8, "big") + b"\0\0")
            for number in range(1, 100)
        )
        client.send_bytes(large)
        client.send(0, "connection.close-ok")
        with pytest.raises(ConnectionEnded):
            client.receive()
    assert broker.resident_bytes() - memory < 20_000_000


def test_a_client_that_sent_ahead_and_then_close_ok_is_let_go(broker: BrokerProcess) -> None:
    with refused(broker, ("authentication_failure_close",)) as client:
        client.send(0, "connection.tune-ok", channel_max=0, frame_max=131072, heartbeat=0)
        client.send(0, "connection.open", virtual_host="/")
        client.expect(0, "connection.close")
        client.send(0, "connection.close-ok")
        with pytest.raises(ConnectionEnded):
            client.receive()
