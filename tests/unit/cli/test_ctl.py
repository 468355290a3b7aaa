"""`warrenctl` against a node that answers, one that does not, and verbs it does not have."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from warren.cli.ctl import READY_PATH, run


class _Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == READY_PATH else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def node() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Ready)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("verb", ["ping", "status"])
def test_a_ready_node_is_reported_up(
    node: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--url", node + "/", verb]) == 0
    assert "is up" in capsys.readouterr().out


def test_the_address_can_come_from_the_environment(
    node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_URL", node)
    assert run(["ping"]) == 0


def test_a_node_that_is_not_ready_or_not_there_is_unavailable(
    node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--url", node + "/elsewhere", "ping"]) == 69
    assert "503" in capsys.readouterr().err
    assert run(["--url", "http://127.0.0.1:1", "ping"]) == 69
    assert "refused" in capsys.readouterr().err


def test_other_verbs_are_refused_as_not_available_yet(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list_queues", "name", "messages"]) == 64
    assert "management API" in capsys.readouterr().err


def test_wrong_usage_and_help_have_their_own_exit_codes() -> None:
    assert run([]) == 64
    assert run(["--help"]) == 0
