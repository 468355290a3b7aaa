"""The handshake of all our clients: what they answer, and what they agree on."""

from __future__ import annotations

import pytest
from pamqp.commands import Connection

from warren.client.errors import BrokenStream
from warren.client.handshake import Handshake, Login


def handshake(frame_max: int = 8192, heartbeat_s: int = 30) -> Handshake:
    return Handshake(Login("guest", "secret", "/shop", "a test", frame_max, heartbeat_s))


def test_each_method_is_answered_until_the_connection_is_open() -> None:
    machine = handshake()
    (start_ok,) = machine.answer(Connection.Start())
    assert isinstance(start_ok, Connection.StartOk)
    assert (start_ok.mechanism, start_ok.response) == ("PLAIN", "\0guest\0secret")
    assert start_ok.client_properties["product"] == "a test"
    tune_ok, opening = machine.answer(Connection.Tune(2047, 131_072, 60))
    assert isinstance(tune_ok, Connection.TuneOk)
    assert (tune_ok.channel_max, tune_ok.frame_max, tune_ok.heartbeat) == (2047, 8192, 30)
    assert isinstance(opening, Connection.Open)
    assert opening.virtual_host == "/shop"
    assert not machine.is_open
    assert machine.answer(Connection.OpenOk()) == []
    assert machine.is_open


@pytest.mark.parametrize(
    ("wanted", "offered", "agreed"),
    [
        ((8192, 30), (4096, 10), (4096, 10)),
        ((8192, 30), (131_072, 60), (8192, 30)),
        ((8192, 30), (0, 0), (8192, 30)),
        ((8192, 0), (4096, 60), (4096, 0)),
    ],
)
def test_the_lower_limit_counts_and_zero_is_none(
    wanted: tuple[int, int], offered: tuple[int, int], agreed: tuple[int, int]
) -> None:
    machine = handshake(*wanted)
    machine.answer(Connection.Start())
    machine.answer(Connection.Tune(0, *offered))
    assert (machine.frame_max, machine.heartbeat_s) == agreed


def test_another_method_than_the_next_one_is_refused() -> None:
    machine = handshake()
    with pytest.raises(BrokenStream, match=r"Connection.Tune came in place of Connection.Start"):
        machine.answer(Connection.Tune(0, 4096, 0))


def test_a_password_is_in_no_representation() -> None:
    assert "secret" not in repr(Login("guest", "secret", "/", "a test", 4096))
