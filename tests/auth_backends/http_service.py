"""Service that an HTTP backend asks: a real server in a thread, whose answers a test sets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qsl, urlsplit

Asked = dict[str, str]

ALLOW: Final = "allow"
DENY: Final = "deny"


class AuthService:
    """Knows users by password and tags; `decide` answers all other questions."""

    def __init__(self) -> None:
        self.users: dict[str, tuple[str, str]] = {}
        self.decide: Callable[[str, Asked], str] = lambda path, asked: ALLOW
        self.asked: list[tuple[str, Asked]] = []
        self.status = 200
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def settings(self, method: str = "post") -> str:
        paths = "".join(
            f"auth_http.{kind}_path = {self.url}/auth/{kind}\n"
            for kind in ("user", "vhost", "resource", "topic")
        )
        return f"auth_http.http_method = {method}\n{paths}"

    def questions(self, kind: str) -> list[Asked]:
        return [asked for path, asked in self.asked if path == f"/auth/{kind}"]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, asked: Asked) -> str:
        self.asked.append((path, asked))
        if path != "/auth/user":
            return self.decide(path.removeprefix("/auth/"), asked)
        password, tags = self.users.get(asked["username"], ("", ""))
        if not password or asked.get("password") != password:
            return DENY
        return f"{ALLOW} {tags}".strip()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                self._reply(parts.path, parts.query)

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                assert self.headers["content-type"] == "application/x-www-form-urlencoded"
                self._reply(self.path, self.rfile.read(length).decode())

            def _reply(self, path: str, query: str) -> None:
                asked = dict(parse_qsl(query, keep_blank_values=True))
                body = service.answer(path, asked).encode()
                self.send_response(service.status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Say nothing: tests look at what was asked."""

        return Handler
