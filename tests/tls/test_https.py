"""The management API over TLS: urllib, warrenctl, and those who get it wrong."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import ssl
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acceptance.control import Control
from certificates import Authority
from tls.conftest import TlsBroker
from warren.cli.main import listening_for_http
from warren.config.file import parse_config
from warren.config.values import Endpoint
from warren.server.node import Node


def ask(url: str, context: ssl.SSLContext) -> tuple[int, Any]:
    token = base64.b64encode(b"guest:guest").decode()
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {token}"})
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def test_the_api_answers_over_tls_with_the_options_of_amqp(tls_broker: TlsBroker) -> None:
    status, overview = ask(
        f"https://localhost:{tls_broker.https_port}/api/overview", tls_broker.context()
    )
    assert status == 200
    assert {c["port"]: bool(c["ssl_opts"]) for c in overview["contexts"]} == {
        str(tls_broker.http_port): False,
        str(tls_broker.https_port): True,
    }


def test_certificates_that_expire_before_long_fail_the_health_check(tls_broker: TlsBroker) -> None:
    base = f"https://localhost:{tls_broker.https_port}/api/health/checks/certificate-expiration"
    context = tls_broker.context()
    assert ask(f"{base}/1/weeks", context) == (200, {"status": "ok"})
    status, answer = ask(f"{base}/2/MONTHS", context)
    assert (status, answer["reason"]) == (503, "Certificates expiring")
    found = {(one["protocol"], one["port"]): one for one in answer["expired"]}
    assert set(found) == {
        ("amqp/ssl", tls_broker.amqps_port),
        ("https", tls_broker.https_port),
    }
    one = found["amqp/ssl", tls_broker.amqps_port]
    assert one["interface"] == "127.0.0.1"
    assert len(one["certfile_expires_on"]) == len(one["cacertfile_expires_on"]) == 1
    assert ask(f"{base}/soon/days", context)[0] == 400


def test_warrenctl_asks_over_https_and_names_a_certificate_that_it_does_not_trust(
    tls_broker: TlsBroker, authority: Authority, tmp_path: Path
) -> None:
    control = Control(f"https://localhost:{tls_broker.https_port}")
    trusted = f"--cacertfile={authority.cacertfile}"
    assert "guest" in control.ok("list_users", trusted).out
    refused = control("list_users")
    assert refused.code != 0
    assert "certificate verify failed" in refused.err.lower()
    missing = control("list_users", f"--cacertfile={tmp_path / 'missing.pem'}")
    assert f"{tmp_path / 'missing.pem'}: No such file" in missing.err


def test_a_plain_caller_on_the_tls_port_is_refused(tls_broker: TlsBroker) -> None:
    with socket.create_connection(("127.0.0.1", tls_broker.https_port), 30) as plain:
        peer = "{}:{}".format(*plain.getsockname())
        plain.sendall(b"GET /api/overview HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert not plain.recv(100).startswith(b"HTTP/1.1 2")
    line = tls_broker.await_line("TLS handshake failed", peer)
    assert "does not speak TLS" in line
    assert "of=HTTP" in line


def test_a_tls_caller_on_the_plain_port_is_refused(tls_broker: TlsBroker) -> None:
    with socket.create_connection(("127.0.0.1", tls_broker.http_port), 30) as raw:
        peer = "{}:{}".format(*raw.getsockname())
        with contextlib.suppress(OSError):
            tls_broker.context().wrap_socket(raw, server_hostname="localhost")
    assert "the client speaks TLS" in tls_broker.await_line("HTTP connection refused", peer)


async def test_with_management_ssl_alone_there_is_no_plain_port(
    tmp_path: Path, authority: Authority
) -> None:
    server = authority.issue("https-alone")
    said = parse_config(
        "management.ssl.port = 0\n"
        f"management.ssl.certfile = {server.certfile}\n"
        f"management.ssl.keyfile = {server.keyfile}\n",
        "test.conf",
    )
    config = listening_for_http(said.config(), said, http_port=None)
    listeners = (Endpoint("127.0.0.1", 0),)
    node = Node(replace(config, data_dir=tmp_path, tcp_listeners=listeners))
    await node.start()
    try:
        assert list(node.http_endpoints) == ["https"]
        context = ssl.create_default_context(cafile=str(authority.cacertfile))
        port = node.http_endpoints["https"].port
        url = f"https://localhost:{port}/api/health/checks/ready"
        assert await asyncio.to_thread(ask, url, context) == (200, {"status": "ok"})
    finally:
        await node.stop()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls_are_spoken(tls_broker: TlsBroker, version: ssl.TLSVersion) -> None:
    context = tls_broker.context()
    context.minimum_version = context.maximum_version = version
    url = f"https://localhost:{tls_broker.https_port}/api/whoami"
    assert ask(url, context)[1]["name"] == "guest"
