"""An address of the page, and what answers there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from starlette.responses import Response

from warren.management.page.visit import FORM_BYTES_MAX, Visit

Handler: TypeAlias = Callable[[Visit], Awaitable[Response]]

LOGIN_PATH: Final = "/login"
LOGOUT_PATH: Final = "/logout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An address of the page: `get` shows something, `post` changes something."""

    path: str
    get: Handler | None = None
    post: Handler | None = None
    is_open: bool = False
    """Also to who is not signed in."""
    form_bytes_max: int = FORM_BYTES_MAX

    def handler(self, method: str) -> Handler | None:
        return {"GET": self.get, "HEAD": self.get, "POST": self.post}.get(method)
