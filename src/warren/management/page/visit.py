"""One request to the page: who is there, what is wanted, and the ways to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp

from warren.auth.users import User
from warren.management.caller import Caller
from warren.management.multipart import form_fields
from warren.management.page.api_caller import ApiCaller, Refused
from warren.management.page.signing import Session, Signer
from warren.management.plain_forms import TooManyFields, plain_form_fields
from warren.management.resource import Resource

if TYPE_CHECKING:
    from warren.management.page.foreign_logins import ForeignLogins
    from warren.management.page.openid import OpenIdLogin
    from warren.server.node import Node

FORM_BYTES_MAX: Final = 10_000_000
# Decoding a plain form (percent signs) is slow. Forms that may hold more are multipart.
PLAIN_FORM_BYTES_MAX: Final = 100_000
# A visitor who is not signed in sends a name, a password and a path.
LOGIN_FORM_BYTES_MAX: Final = 8_192
UPLOAD_BYTES_MAX: Final = 256_000_000
NOTE_CHARS_MAX: Final = 800
NOTE_COOKIE: Final = "warren_note"
THEME_COOKIE: Final = "warren_theme"
THEMES: Final = ("light", "dark")
_MULTIPART: Final = "multipart/form-data"


def link(*parts: str) -> str:
    """The address of a page; names may hold anything."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


class PageRenderer(Protocol):
    async def render(self, visit: Visit, template: str, values: Mapping[str, Any]) -> str: ...


class VisitedSite(Protocol):
    """The application that the visit is to."""

    node: Node
    dispatch: ASGIApp
    resources: Sequence[Resource]
    signer: Signer
    foreign_logins: ForeignLogins
    openid: OpenIdLogin | None

    @property
    def renderer(self) -> PageRenderer: ...

    def set_cookie(
        self,
        request: Request,
        response: Response,
        name: str,
        value: str,
        lasts_s: int | None = None,
    ) -> None: ...

    def set_session(self, request: Request, response: Response, value: str) -> None: ...


class Visit:
    """`parts` are the open parts of the path, decoded; `query` what stands behind the `?`."""

    def __init__(self, site: VisitedSite, request: Request, parts: Mapping[str, str]) -> None:
        self.site = site
        self.request = request
        self.parts = parts
        self.query: Mapping[str, str] = request.query_params
        self._session: Session | None = None
        self._user: User | None = None
        self._form: dict[str, bytes] | None = None

    def sign_in(self, session: Session, user: User) -> None:
        self._session, self._user = session, user

    @property
    def is_signed_in(self) -> bool:
        return self._session is not None

    @property
    def session(self) -> Session:
        assert self._session is not None, "only who is signed in gets here"
        return self._session

    @property
    def user(self) -> User:
        assert self._user is not None, "only who is signed in gets here"
        return self._user

    @property
    def caller(self) -> Caller:
        return Caller(self.user, self.site.node.broker.access)

    @property
    def api(self) -> ApiCaller:
        return ApiCaller(self.site.dispatch, self.request, self.user)

    @property
    def is_partial(self) -> bool:
        """Whether a part of a page is wanted that is there already."""
        return "hx-request" in self.request.headers

    @property
    def theme(self) -> str:
        chosen = self.request.cookies.get(THEME_COOKIE, "")
        return chosen if chosen in THEMES else ""

    # What it says.

    async def read_form(self, bytes_max: int = FORM_BYTES_MAX) -> None:
        """Read the form; to be called before any field is asked for."""
        content_type = self.request.headers.get("content-type", "")
        if content_type.startswith(_MULTIPART):
            raw = await self._read(bytes_max)
            self._form = await asyncio.to_thread(form_fields, content_type, raw)
            return
        raw = await self._read(min(bytes_max, PLAIN_FORM_BYTES_MAX))
        try:
            self._form = await plain_form_fields(raw)
        except TooManyFields:
            raise Refused(400, "The form cannot be read.") from None

    async def _read(self, bytes_max: int) -> bytes:
        pieces, room = [], bytes_max
        async for piece in self.request.stream():
            room -= len(piece)
            if room < 0:
                raise Refused(413, "That is too much for one form.")
            pieces.append(piece)
        return b"".join(pieces)

    def field(self, name: str, default: str = "") -> str:
        return self.file(name, default.encode()).decode(errors="replace")

    def file(self, name: str, default: bytes = b"") -> bytes:
        assert self._form is not None, "a form is read before its fields are asked for"
        return self._form.get(name, default)

    def has(self, name: str) -> bool:
        """A box that is ticked, a field that is filled in."""
        return bool(self.file(name).strip())

    def number(self, name: str, default: int) -> int:
        text = self.field(name).strip()
        try:
            return int(text) if text else default
        except ValueError:
            raise Refused(400, f"“{text}” is not a whole number.") from None

    # How it is answered.

    async def page(self, template: str, status: int = 200, **values: Any) -> Response:
        text = await self.site.renderer.render(self, template, values)
        response = HTMLResponse(text, status)
        if NOTE_COOKIE in self.request.cookies and not self.is_partial:
            response.delete_cookie(NOTE_COOKIE)
        return response

    def done(self, note: str, *place: str) -> Response:
        """What was asked for is done; the browser goes on to a page, which says so."""
        url = link(*place)
        response: Response
        if not self.is_partial:
            response = RedirectResponse(url, 303)
        elif urlsplit(self.request.headers.get("hx-current-url", "")).path == url:
            response = Response(b"", 200, {"hx-refresh": "true"})
        else:
            response = Response(b"", 200, {"hx-redirect": url})
        signed = self.site.signer.sign("note", note[:NOTE_CHARS_MAX].encode())
        self.site.set_cookie(self.request, response, NOTE_COOKIE, signed)
        return response

    @property
    def note(self) -> str:
        """What the last change came to, shown once."""
        signed = self.request.cookies.get(NOTE_COOKIE, "")
        data = self.site.signer.verified("note", signed) if signed else None
        return "" if data is None else data.decode()
