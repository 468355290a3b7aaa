"""The HTTP connection of all our clients, with a real server at the other end."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from warren.client.http import ApiConnection, HttpAddress, HttpRequest


class Node(ThreadingHTTPServer):
    """Answers with what it was asked. `hang_up` closes a kept connection instead, once."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.connections = 0
        self.hang_up = False


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Node

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        if self.server.hang_up:
            self.server.hang_up = False
            self.close_connection = True
            return
        size = int(self.headers.get("Content-Length", 0))
        told = {
            "method": self.command,
            "path": self.path,
            "headers": dict(self.headers.items()),
            "body": self.rfile.read(size).decode(),
        }
        answer = json.dumps(told).encode()
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PUT = do_GET  # noqa: N815 - the names that http.server looks for

    def log_message(self, *_: object) -> None:
        """Write nothing to stderr."""


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def connection(node: Node) -> Iterator[ApiConnection]:
    made = ApiConnection(HttpAddress(*node.server_address, "guest", "secret", agent="a test"))
    yield made
    made.close()


def test_a_request_carries_user_and_json(connection: ApiConnection) -> None:
    response = connection.request(HttpRequest("PUT", "/api/x", {"a": 1}, {"X-Reason": "why"}), 5)
    told = json.loads(response.read())
    assert (response.status, told["method"], told["path"]) == (200, "PUT", "/api/x")
    assert json.loads(told["body"]) == {"a": 1}
    user = b64decode(told["headers"]["Authorization"].removeprefix("Basic ")).decode()
    assert user == "guest:secret"
    assert told["headers"]["User-Agent"] == "a test"
    assert told["headers"]["X-Reason"] == "why"


def test_an_error_status_is_an_answer_and_the_connection_is_kept(
    node: Node, connection: ApiConnection
) -> None:
    for path, status in (("/missing", 404), ("/api", 200)):
        response = connection.request(HttpRequest("GET", path), 5)
        assert response.status == status
        assert json.loads(response.read())["body"] == "", "no body was sent"
    assert node.connections == 1


def test_a_connection_closed_while_it_was_kept_is_made_again(
    node: Node, connection: ApiConnection
) -> None:
    connection.request(HttpRequest("GET", "/"), 5).read()
    node.hang_up = True
    assert connection.request(HttpRequest("GET", "/"), 5).status == 200
    assert node.connections == 2


def test_what_must_not_be_repeated_is_not(node: Node, connection: ApiConnection) -> None:
    connection.request(HttpRequest("GET", "/"), 5).read()
    node.hang_up = True
    with pytest.raises(ConnectionError):
        connection.request(HttpRequest("POST", "/", is_repeatable=False), 5)
    assert connection.request(HttpRequest("POST", "/", is_repeatable=False), 5).status == 200


def test_a_first_connection_that_is_closed_is_an_error(
    node: Node, connection: ApiConnection
) -> None:
    node.hang_up = True
    with pytest.raises(ConnectionError):
        connection.request(HttpRequest("GET", "/"), 5)


def test_without_a_user_nothing_is_said_about_one(node: Node) -> None:
    connection = ApiConnection(HttpAddress(*node.server_address))
    told = json.loads(connection.request(HttpRequest("GET", "/"), 5).read())
    connection.close()
    assert "Authorization" not in told["headers"]
