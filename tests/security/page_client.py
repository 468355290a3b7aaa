"""The management page as a program asks for it: forms and cookies without a browser."""

from __future__ import annotations

import http.client
import re
from typing import Final
from urllib.parse import urlencode

ANSWERED_WITHIN_S: Final = 60.0
FORM: Final = "application/x-www-form-urlencoded"


class PageAnswer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.text = response.read().decode(errors="replace")

    @property
    def cookie(self) -> str:
        """The session's cookie as a browser sends it back, or nothing."""
        return self.headers.get("set-cookie", "").partition(";")[0]

    @property
    def token(self) -> str:
        """The token that forms of this page hold."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.text)
        assert found is not None, "there is no form on this page"
        return found[1]


def ask_page(
    port: int, method: str, path: str, raw: bytes | None = None, **headers: str
) -> PageAnswer:
    """Ask for a page; underscores in names of headers become hyphens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWERED_WITHIN_S)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, raw, {"content-type": FORM, **sent})
        return PageAnswer(connection.getresponse())
    finally:
        connection.close()


def log_in_to_page(port: int, user: str, password: str, **headers: str) -> PageAnswer:
    form = urlencode({"username": user, "password": password}).encode()
    return ask_page(port, "POST", "/login", form, **headers)
