"""Guessing is slow, every admin change has a line, and no secret gets into the log."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection
from pika.credentials import PlainCredentials

from acceptance.control import Control
from certificates import Authority
from tls.conftest import TlsBroker

FAILURES_MAX = 5
FAILURES = f"warren.login_failures_per_minute = {FAILURES_MAX}\nlog.console.level = debug\n"
SECRETS = ("first-s3cret", "wrong-s3cret", "changed-s3cret", "uri-s3cret", "hashed-s3cret")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    directory = tmp_path_factory.mktemp("guarded")
    broker = TlsBroker(directory, Authority(directory / "authority"), FAILURES)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def control(broker: TlsBroker) -> Control:
    return Control(f"http://127.0.0.1:{broker.http_port}")


def call(
    broker: TlsBroker, user: str, password: str, method: str = "GET", path: str = "/api/whoami",
    body: object = None,
) -> tuple[int, Any]:  # fmt: skip
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{broker.http_port}{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Basic {token}", "User-Agent": "test/1"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, dict(answer.headers)
    except urllib.error.HTTPError as refused:
        return refused.code, dict(refused.headers)


def log_in(broker: TlsBroker, user: str, password: str) -> None:
    parameters = pika.ConnectionParameters(
        *broker.address, credentials=PlainCredentials(user, password), socket_timeout=30
    )
    BlockingConnection(parameters).close()


def test_over_http_too_many_failures_are_answered_429_even_with_the_right_password(
    broker: TlsBroker, control: Control
) -> None:
    control.ok("add_user", "guessed", "right")
    control.ok("set_user_tags", "guessed", "management")
    answers = [call(broker, "guessed", "wrong-s3cret")[0] for _ in range(FAILURES_MAX)]
    assert answers == [401] * FAILURES_MAX
    status, headers = call(broker, "guessed", "right")
    assert status == 429
    assert 0 < int(headers["retry-after"]) <= 60
    assert call(broker, "guest", "guest")[0] == 200, "others go on"
    line = broker.await_line("HTTP access denied", "too many failed logins")
    assert "peer=127.0.0.1" in line


def test_over_amqp_too_many_failures_are_refused_even_with_the_right_password(
    broker: TlsBroker, control: Control
) -> None:
    control.ok("add_user", "guessed-by-amqp", "right")
    control.ok("set_permissions", "guessed-by-amqp", ".*", ".*", ".*")
    log_in(broker, "guessed-by-amqp", "right")
    for _ in range(FAILURES_MAX):
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            log_in(broker, "guessed-by-amqp", "wrong-s3cret")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        log_in(broker, "guessed-by-amqp", "right")
    assert broker.await_line("connection refused", "guessed-by-amqp", "too many failed logins")
    log_in(broker, "guest", "guest")


def test_every_change_has_a_line_with_who_from_where_and_what(
    broker: TlsBroker, control: Control
) -> None:
    assert call(broker, "guest", "guest", "PUT", "/api/vhosts/audited")[0] == 201
    line = broker.await_line("admin change", "PUT /api/vhosts/audited")
    assert "user=guest" in line
    assert "peer=127.0.0.1:" in line
    assert "by=test/1" in line
    control.ok("delete_vhost audited")
    assert "by=warrenctl/" in broker.await_line("admin change", "DELETE /api/vhosts/audited")


def test_what_changes_nothing_has_no_line(broker: TlsBroker) -> None:
    refused = "/api/vhosts/audited-not"
    assert call(broker, "guest", "guest", "DELETE", refused)[0] == 404
    published = "/api/exchanges/%2F/amq.default/publish"
    body = {"properties": {}, "routing_key": "x", "payload": "p", "payload_encoding": "string"}
    assert call(broker, "guest", "guest", "POST", published, body)[0] == 200
    assert call(broker, "guest", "guest")[0] == 200
    assert call(broker, "guest", "guest", "PUT", "/api/vhosts/audited-after")[0] == 201
    broker.await_line("admin change", "PUT /api/vhosts/audited-after")
    lines = [line for line in broker.log().splitlines() if "admin change" in line]
    assert not [line for line in lines if "audited-not" in line or "publish" in line]


def test_no_secret_is_in_the_log_after_using_them_everywhere(
    broker: TlsBroker, control: Control, tmp_path: Path
) -> None:
    control.ok("add_user", "holder", "first-s3cret")
    control.ok("change_password", "holder", "changed-s3cret")
    control.ok("set_permissions", "holder", ".*", ".*", ".*")
    control.ok("authenticate_user", "holder", "changed-s3cret")
    control("authenticate_user", "holder", "wrong-s3cret")
    value = json.dumps({"uri": "amqp://u:uri-s3cret@other"})
    control.ok("set_global_parameter", "elsewhere", value)
    user = {"password": "hashed-s3cret", "tags": "management"}
    assert call(broker, "guest", "guest", "PUT", "/api/users/other", user)[0] == 201
    assert call(broker, "holder", "wrong-s3cret")[0] == 401
    log_in(broker, "holder", "changed-s3cret")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        log_in(broker, "holder", "wrong-s3cret")
    exported = tmp_path / "definitions.json"
    control.ok(f"export_definitions {exported}")
    definitions = json.loads(exported.read_text())
    control.ok(f"import_definitions {exported}")
    hashes = [user["password_hash"] for user in definitions["users"]]
    broker.await_line("connection refused", "holder")
    log = broker.log()
    encoded = [base64.b64encode(secret.encode()).decode().rstrip("=") for secret in SECRETS]
    hidden = [*SECRETS, *encoded, *hashes, "opens the key", "PRIVATE KEY"]
    assert [secret for secret in hidden if secret in log] == []
    assert len(log.splitlines()) > 20, "there is something to look at"
