"""A wrong port in --url is told by every job at once: what answers there, and what to give."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from socket import create_server

import pytest
from typer.testing import CliRunner

from broker_process import BrokerProcess, free_port
from pyspark_warren.endpoints import parse_endpoints
from pyspark_warren.errors import InvalidOption
from pyspark_warren.jobs import ports
from pyspark_warren.jobs.command import app
from pyspark_warren.jobs.ports import check_ports

JOBS = {
    "ingest": ("--queue", "q", "--lake", "lake"),
    "replay": ("--queue", "q", "--to-exchange", "amq.direct"),
    "deadletters": ("--queue", "q"),
    "telemetry": ("--state", "state"),
}
AT_ONCE_S = 20.0
"""Much less than the failover timeout, and less than Spark takes to start on a busy machine."""


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A server that says this to the first who connects, whatever it is asked."""
    with closing(create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1_000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)


@pytest.mark.parametrize("job", JOBS)
def test_the_port_of_amqp_as_an_http_address(
    job: str, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.chdir(str(tmp_path))
    wrong = f"http://guest:secret@127.0.0.1:{broker.address.port}"
    began = time.monotonic()
    done = CliRunner().invoke(app, [job, "--url", f"{wrong},amqp://127.0.0.1:1", *JOBS[job]])
    assert time.monotonic() - began < AT_ONCE_S
    assert done.exit_code == 64
    assert f"option url: http://127.0.0.1:{broker.address.port} speaks AMQP" in done.output
    assert "such as http://127.0.0.1:15672" in done.output
    assert "secret" not in done.output


@pytest.mark.parametrize("job", JOBS)
def test_the_port_of_http_as_an_amqp_address(
    job: str, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.chdir(str(tmp_path))
    wrong = f"amqp://guest:secret@127.0.0.1:{broker.http_port}"
    right = f"http://127.0.0.1:{broker.http_port}"
    began = time.monotonic()
    done = CliRunner().invoke(app, [job, "--url", f"{right},{wrong}", *JOBS[job]])
    assert time.monotonic() - began < AT_ONCE_S
    assert done.exit_code == 64
    assert f"option url: amqp://127.0.0.1:{broker.http_port} speaks HTTP" in done.output
    assert "such as amqp://127.0.0.1:5672" in done.output
    assert "secret" not in done.output


def test_right_ports_and_ports_where_nothing_answers_are_let_pass(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "ANSWER_WITHIN_S", 0.5)
    http, amqp = broker.http_port, broker.address.port
    check_ports(
        parse_endpoints(f"http://127.0.0.1:{http},amqp://127.0.0.1:{amqp},http://h.invalid")
    )
    check_ports(parse_endpoints(f"amqp://127.0.0.1:{free_port()}"))
    with closing(create_server(("127.0.0.1", 0))) as silent:
        check_ports(parse_endpoints(f"http://127.0.0.1:{silent.getsockname()[1]}"))


@pytest.mark.parametrize(
    ("scheme", "answer", "said"),
    [
        ("amqp", b"SSH-2.0-OpenSSH_9.2\r\n", "is no broker: .* begins with 'SSH-2.0-OpenSSH_9.2"),
        ("http", b"SSH-2.0-OpenSSH_9.2\r\n", "the management API, such as http://127.0.0.1:15672"),
        ("amqp", b"\x15\x03\x01\x00\x02", "speaks TLS; give amqps://127.0.0.1:5671"),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS; give .* or http://"),
    ],
)
def test_what_else_answers_is_shown(scheme: str, answer: bytes, said: str) -> None:
    with answering(answer) as port, pytest.raises(InvalidOption, match=said):
        check_ports(parse_endpoints(f"{scheme}://127.0.0.1:{port}"))
