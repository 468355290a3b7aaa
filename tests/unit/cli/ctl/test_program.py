"""How it ends: exit codes and what is said, where a node is missing, slow or says no."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from warren.cli.ctl.api import Target
from warren.cli.ctl.program import run
from warren.cli.ctl.verbs import Failure

NOBODY = "http://127.0.0.1:1"


ANSWERS = {
    "/api/health/checks/ready": (200, {"status": "ok"}),
    "/api/users": (401, {"error": "not_authorised", "reason": "Not administrator user"}),
    "/api/vhosts": (401, {"error": "not_authorized", "reason": "Login failed"}),
    "/api/global-parameters": (500, {"error": "internal", "reason": "&lt;oops&gt;"}),
    "/starting/api/health/checks/ready": (503, {"status": "failed"}),
}


class _Node(BaseHTTPRequestHandler):
    """Answers as a node does in the cases a real one is hard to bring into."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/api/connections":
            time.sleep(1.5)
        status, body = ANSWERS.get(path, (404, {"error": "Object Not Found"}))
        sent = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Node)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_ready_node_answers_a_ping(node: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--url", node + "/", "ping"]) == 0
    assert capsys.readouterr().out.endswith("Ping succeeded\n")


def test_the_address_can_come_from_the_environment(
    node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_URL", node)
    assert run(["ping"]) == 0


def test_a_node_that_is_not_there_is_unavailable(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--url", NOBODY, "list_users"]) == 69
    said = capsys.readouterr().err
    assert f"unable to reach a node at {NOBODY}: Connection refused" in said
    assert "--url or WARREN_URL" in said


def test_a_node_that_is_starting_is_unavailable(
    node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--url", f"{node}/starting", "ping"]) == 69
    assert "not ready" in capsys.readouterr().err


def test_a_wrong_password_is_said_to_be_one(node: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--url", node, "-u", "me", "list_vhosts"]) == 69
    said = capsys.readouterr().err
    assert "does not accept the password of user 'me'" in said
    assert "WARREN_PASSWORD" in said


def test_what_is_not_allowed_is_told_apart(node: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--url", node, "list_users"]) == 69
    assert "may not do this: Not administrator user" in capsys.readouterr().err


def test_a_broken_node_is_quoted(node: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--url", node, "list_global_parameters"]) == 69
    assert "the node answered 500: <oops>" in capsys.readouterr().err


def test_an_answer_that_takes_too_long_is_temporary(
    node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--url", node, "-t", "1", "list_connections"]) == 75
    assert "Timeout used: 1.0 s" in capsys.readouterr().err


def test_a_node_that_does_not_start_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    assert run(["--url", NOBODY, "-t", "1", "await_startup"]) == 69
    assert 1 <= time.monotonic() - began < 30
    assert "did not start in time" in capsys.readouterr().err


def test_a_mistyped_verb_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lst_queus"]) == 64
    assert capsys.readouterr().err == (
        "\nCommand 'lst_queus' not found. \nDid you mean 'list_queues'? \n\n"
    )
    assert run(["zzz"]) == 64
    assert capsys.readouterr().err == (
        "\nCommand 'zzz' not found. \n'warrenctl help' lists all commands\n\n"
    )


def test_wrong_usage_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list_queues", "bogus", "name", "alien"]) == 64
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(
        "Error (argument validation): Info key(s) alien,bogus are not supported\n"
        "Arguments given:\n\tlist_queues bogus name alien\n\nUsage\n\nwarrenctl "
    )
    assert run(["list_users", "--formatter", "yaml"]) == 64
    assert "unknown formatter 'yaml'" in capsys.readouterr().err


def test_help_goes_to_stdout_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for line in (
        ["help"],
        ["--help"],
        ["help", "set_policy"],
        ["set_policy", "--help"],
        ["ping", "-?"],
    ):
        assert run(line) == 0
        assert "Usage" in capsys.readouterr().out
    assert run([]) == 64
    assert capsys.readouterr().out == ""
    assert run(["help", "zzz"]) == 64


@pytest.mark.parametrize(
    ("given", "user", "password"),
    [
        (("http://h:1", None, None), "guest", "guest"),
        (("http://a:b%40c@h:1", None, None), "a", "b@c"),
        (("http://a:b@h:1", "x", "y"), "x", "y"),
        (("h:1", None, None), "guest", "guest"),
    ],
)
def test_who_asks(given: tuple[str, str | None, str | None], user: str, password: str) -> None:
    assert Target.of(*given) == Target("http://h:1", user, password)


def test_addresses_that_are_none_are_refused() -> None:
    for url in ("ftp://h", "http://h:bad", "http://"):
        with pytest.raises(Failure, match="not the address"):
            Target.of(url, None, None)


def test_neither_a_ping_nor_help_loads_what_draws_tables() -> None:
    """A script calls it often. What is slow to import must not be imported for nothing."""
    program = (
        "import sys; from warren.cli.ctl.program import run\n"
        f"run(['--url', '{NOBODY}', 'ping']); run(['help'])\n"
        "slow = {'rich', 'typer', 'asyncio', 'uvloop', 'starlette', 'csv'} & set(sys.modules)\n"
        "sys.exit(str(slow) if slow else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
