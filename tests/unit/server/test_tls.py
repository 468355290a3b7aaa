"""TLS with real sockets and certificates: handshakes that end, renewals, and what names say."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from certificates import Authority, Issued
from warren.config.settings import Config
from warren.config.tls import TlsOptions
from warren.config.values import Endpoint
from warren.model.logs import configure_logs
from warren.server.tls.acceptor import TlsAcceptor
from warren.server.tls.certificates import expiries_of, expiry_of
from warren.server.tls.peer import distinguished_name, suite_parts
from warren.server.tls.sides import ConfiguredSide, tls_sides


class Greeter(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(b"hello")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def options(authority: Authority) -> TlsOptions:
    server = authority.issue("server")
    return TlsOptions(str(authority.cacertfile), str(server.certfile), str(server.keyfile))


def side_of(options: TlsOptions, timeout_ms: int = 30_000) -> ConfiguredSide:
    listeners = (Endpoint("127.0.0.1", 0),)
    config = Config(
        ssl_listeners=listeners, ssl_options=options, ssl_handshake_timeout_ms=timeout_ms
    )
    side = tls_sides(config).amqp
    assert side is not None
    return side


Listen = Callable[..., tuple[TlsAcceptor, int]]


@pytest.fixture
async def listen() -> AsyncIterator[Listen]:
    opened: list[tuple[TlsAcceptor, socket.socket]] = []

    def listen(side: ConfiguredSide, at_once_max: int = 10) -> tuple[TlsAcceptor, int]:
        acceptor = TlsAcceptor(side.side, Greeter, at_once_max)
        bound = socket.socket()
        bound.setblocking(False)
        bound.bind(("127.0.0.1", 0))
        acceptor.listen(bound, 10)
        opened.append((acceptor, bound))
        return acceptor, int(bound.getsockname()[1])

    yield listen
    for acceptor, bound in opened:
        acceptor.close()
        bound.close()


@pytest.fixture
def log() -> io.StringIO:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    return stream


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.01)


async def greeting(
    port: int, authority: Authority, shown: Issued | None = None
) -> tuple[bytes, int]:
    """What is said, and the serial number of who says it."""
    context = ssl.create_default_context(cafile=str(authority.cacertfile))
    if shown is not None:
        context.load_cert_chain(shown.certfile, shown.keyfile)
    reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
    said = await asyncio.wait_for(reader.read(5), 30)
    serial = int(writer.get_extra_info("peercert")["serialNumber"], 16)
    writer.close()
    return said, serial


async def test_a_client_that_says_nothing_is_dropped_when_its_time_is_over(
    options: TlsOptions, listen: Listen, log: io.StringIO
) -> None:
    acceptor, port = listen(side_of(options, timeout_ms=200))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await asyncio.wait_for(reader.read(), 30) == b""
    await until(lambda: "not done within 0.2 s (ssl_handshake_timeout)" in log.getvalue())
    assert len(acceptor) == 0
    writer.close()


async def test_handshakes_beyond_the_limit_are_not_begun(
    options: TlsOptions, authority: Authority, listen: Listen, log: io.StringIO
) -> None:
    acceptor, port = listen(side_of(options), at_once_max=1)
    _, first = await asyncio.open_connection("127.0.0.1", port)
    await until(lambda: len(acceptor) == 1)
    reader, second = await asyncio.open_connection("127.0.0.1", port)
    assert await asyncio.wait_for(reader.read(), 30) == b""
    second.close()
    assert 'reason="too many handshakes at once"' in log.getvalue()
    first.close()
    await until(lambda: len(acceptor) == 0)
    assert (await greeting(port, authority))[0] == b"hello"


async def test_closing_ends_the_handshakes(options: TlsOptions, listen: Listen) -> None:
    acceptor, port = listen(side_of(options))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await until(lambda: len(acceptor) == 1)
    acceptor.close()
    assert await asyncio.wait_for(reader.read(), 30) == b""
    writer.close()
    await until(lambda: len(acceptor) == 0)


async def test_clients_that_fail_do_not_get_into_the_way_of_one_that_does_not(
    options: TlsOptions, authority: Authority, listen: Listen, log: io.StringIO
) -> None:
    _, port = listen(side_of(options))

    async def garble() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await writer.drain()
        writer.close()

    said = await asyncio.gather(*(garble() for _ in range(5)), greeting(port, authority))
    assert said[-1][0] == b"hello"
    await until(lambda: log.getvalue().count("the client does not speak TLS") == 5)


async def test_a_renewed_certificate_is_shown_to_those_who_come_after(
    authority: Authority, listen: Listen, log: io.StringIO
) -> None:
    first = authority.issue("renewed")
    options = TlsOptions(certfile=str(first.certfile), keyfile=str(first.keyfile))
    side = side_of(options)
    _, port = listen(side)
    assert (await greeting(port, authority))[1] == first.certificate.serial_number
    assert side.renew() is False
    second = authority.issue("renewed")
    os.utime(second.certfile, (1, 1))  # as changed for a clock of any grain
    assert side.renew() is True
    assert (await greeting(port, authority))[1] == second.certificate.serial_number
    assert "certificates are renewed" in log.getvalue()


async def test_a_certificate_that_was_spoiled_is_told_of_and_the_old_one_stays(
    authority: Authority, listen: Listen, log: io.StringIO
) -> None:
    issued = authority.issue("spoiled")
    side = side_of(TlsOptions(certfile=str(issued.certfile), keyfile=str(issued.keyfile)))
    _, port = listen(side)
    issued.certfile.write_text("nothing")
    assert side.renew() is False
    assert (await greeting(port, authority))[1] == issued.certificate.serial_number
    assert "certificates have changed and cannot be used" in log.getvalue()
    assert str(issued.certfile) in log.getvalue()


@pytest.mark.parametrize(("depth", "is_let_in"), [(0, False), (1, True)])
async def test_depth_limits_the_certificates_between_a_clients_and_its_root(
    options: TlsOptions, authority: Authority, listen: Listen, log: io.StringIO,
    depth: int, is_let_in: bool,
) -> None:  # fmt: skip
    between = authority.issue("between", is_authority=True)
    client = authority.issue("below", below=between)
    client.certfile.write_bytes(client.certfile.read_bytes() + between.certfile.read_bytes())
    strict = replace(options, verify="verify_peer", fail_if_no_peer_cert=True, depth=depth)
    _, port = listen(side_of(strict))
    if is_let_in:
        assert (await greeting(port, authority, client))[0] == b"hello"
    else:
        with pytest.raises((OSError, AssertionError)):
            assert (await greeting(port, authority, client))[0] == b"hello"
        await until(lambda: "more than 0 certificates below its root" in log.getvalue())


def test_expiries_are_read_of_all_certificates_of_a_file(
    authority: Authority, tmp_path: Path
) -> None:
    late, early = authority.issue("late", days=300), authority.issue("early", days=3)
    both = tmp_path / "both.pem"
    both.write_bytes(late.certfile.read_bytes() + b"noise\n" + early.certfile.read_bytes())
    expected = [one.certificate.not_valid_after_utc for one in (late, early)]
    assert expiries_of(str(both)) == expected
    assert expiry_of(str(both)) == expected[1]
    assert expiry_of(str(tmp_path / "missing")) is None
    both.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert expiries_of(str(both)) == []


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("TLS_AES_256_GCM_SHA384", ("any", "aes_256_gcm", "aead")),
        ("TLS_CHACHA20_POLY1305_SHA256", ("any", "chacha20_poly1305", "aead")),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", ("ecdhe_ecdsa", "aes_256_gcm", "aead")),
        ("ECDHE-RSA-AES128-SHA256", ("ecdhe_rsa", "aes_128_cbc", "sha256")),
        ("ECDHE-RSA-CHACHA20-POLY1305", ("ecdhe_rsa", "chacha20_poly1305", "aead")),
        ("AES128-SHA", ("rsa", "aes_128_cbc", "sha")),
    ],
)
def test_cipher_suites_are_named_as_erlang_names_them(
    name: str, parts: tuple[str, str, str]
) -> None:
    assert suite_parts(name) == parts


def test_distinguished_names_are_written_last_part_first_and_escaped() -> None:
    name = ((("countryName", "DE"),), (("organizationName", "A, B+C"), ("commonName", "#x ")))
    assert distinguished_name(name) == "O=A\\, B\\+C+CN=\\#x\\ ,C=DE"
