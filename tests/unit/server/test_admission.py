"""Who comes in, with the node's real access control: limits, permissions, and their ends."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pamqp.commands import Connection

from warren.auth.permissions import Permission
from warren.auth.users import User
from warren.config.settings import Config
from warren.config.values import Endpoint
from warren.model.errors import HardError
from warren.protocol.sasl import Credentials
from warren.server.admission import Admission
from warren.server.node import Node
from warren.wire.methods import decode_method, encode_method

WITHIN_S = 60.0


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    listeners = (Endpoint("127.0.0.1", 0),)
    node = Node(Config(data_dir=tmp_path, tcp_listeners=listeners, http_port=0))
    await node.start()
    yield node
    await node.stop()


@pytest.fixture
def admission(node: Node) -> Admission:
    return node.context.admission


@pytest.fixture
def guest(admission: Admission) -> User:
    return admission.authenticate(Credentials("guest", b"guest"), "127.0.0.1")


def refusal(admission: Admission, user: User, vhost: str) -> str:
    with pytest.raises(HardError) as caught:
        admission.open_vhost(user, vhost)
    assert caught.value.code == 530
    return caught.value.reply_text


async def test_t154_a_vhost_takes_as_many_connections_as_its_limit(
    node: Node, admission: Admission, guest: User
) -> None:
    await node.broker.admin.set_vhost_limits("/", {"max-connections": 1})
    admission.open_vhost(guest, "/")
    admission.enter(guest, "/")
    assert refusal(admission, guest, "/") == (
        "NOT_ALLOWED - access to vhost '/' refused for user 'guest': "
        "connection limit (1) is reached"
    )
    admission.leave(guest, "/")
    admission.open_vhost(guest, "/")


async def test_a_user_has_as_many_connections_as_its_limit(
    node: Node, admission: Admission, guest: User
) -> None:
    await node.broker.admin.set_user_limits("guest", {"max-connections": 1})
    admission.enter(guest, "/")
    assert "user connection limit (1) is reached" in refusal(admission, guest, "/")


async def test_t156_a_user_has_as_many_channels_as_its_limit(
    node: Node, admission: Admission, guest: User
) -> None:
    await node.broker.admin.set_user_limits("guest", {"max-channels": 2})
    admission.open_channel(guest)
    admission.open_channel(guest)
    with pytest.raises(HardError, match=r"maximum allowed user limit of \(2\)"):
        admission.open_channel(guest)
    admission.close_channel(guest)
    admission.open_channel(guest)


async def test_t014_t015_a_vhost_must_exist_and_the_user_have_a_permission_there(
    node: Node, admission: Admission, guest: User
) -> None:
    assert refusal(admission, guest, "nope") == "NOT_ALLOWED - vhost nope not found"
    await node.broker.admin.add_vhost("other")
    assert refusal(admission, guest, "other") == (
        "NOT_ALLOWED - access to vhost 'other' refused for user 'guest'"
    )


async def open_connection(
    node: Node, vhost: str, user: str = "guest"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    (endpoint,) = node.amqp_endpoints
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    response = f"\0{user}\0{user}"
    start_ok = Connection.StartOk(mechanism="PLAIN", response=response, locale="en_US")
    opening = Connection.Open()
    opening.virtual_host = vhost
    writer.write(b"AMQP\0\0\x09\x01")
    for method in (start_ok, Connection.TuneOk(100, 131072, 0), opening):
        payload = encode_method(method)
        writer.write(struct.pack(">BHI", 1, 0, len(payload)) + payload + b"\xce")
    while not isinstance(await next_method(reader), Connection.OpenOk):
        pass
    return reader, writer


async def next_method(reader: asyncio.StreamReader) -> object:
    header = await asyncio.wait_for(reader.readexactly(7), WITHIN_S)
    payload = await asyncio.wait_for(reader.readexactly(int.from_bytes(header[3:]) + 1), WITHIN_S)
    return decode_method(payload[:-1])


async def test_t157_deleting_a_vhost_closes_its_connections_and_no_others(node: Node) -> None:
    admin = node.broker.admin
    await admin.add_vhost("doomed")
    await admin.set_permissions(Permission("guest", "doomed", ".*", ".*", ".*"))
    spared, spared_writer = await open_connection(node, "/")
    reader, writer = await open_connection(node, "doomed")
    await admin.delete_vhost("doomed")
    close = await next_method(reader)
    assert isinstance(close, Connection.Close)
    assert (close.reply_code, close.reply_text) == (
        320,
        "CONNECTION_FORCED - vhost 'doomed' is deleted",
    )
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(spared.read(1), 0.3)
    writer.close()
    spared_writer.close()


async def test_deleting_a_user_closes_its_connections_and_no_others(node: Node) -> None:
    admin = node.broker.admin
    await admin.add_user("doomed", "doomed")
    await admin.set_permissions(Permission("doomed", "/", ".*", ".*", ".*"))
    spared, spared_writer = await open_connection(node, "/")
    reader, writer = await open_connection(node, "/", "doomed")
    await admin.delete_user("doomed")
    close = await next_method(reader)
    assert isinstance(close, Connection.Close)
    assert (close.reply_code, close.reply_text) == (
        320,
        "CONNECTION_FORCED - user 'doomed' is deleted",
    )
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(spared.read(1), 0.3)
    writer.close()
    spared_writer.close()
