"""The page as an application: who may come in, what is there, and what every answer has.

It is made when somebody looks at it for the first time, in a thread: a broker that nobody looks at
does without the templates, and without the library that they need.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from warren.auth.users import ADMINISTRATOR, User
from warren.management.caller import require_welcome
from warren.management.errors import EmptyRefusal, Refusal, no_such_object
from warren.management.origins import is_foreign
from warren.management.page.address import LOGIN_PATH, LOGOUT_PATH, Page
from warren.management.page.api_caller import Refused
from warren.management.page.foreign_logins import ForeignLogins
from warren.management.page.signing import SESSION_S, Session, Signer, key_of
from warren.management.page.visit import FORM_BYTES_MAX, Visit
from warren.management.paths import PathTree, path_parts
from warren.management.resource import Resource
from warren.metadata.store import MetadataUnavailable
from warren.model.logs import EventLog

if TYPE_CHECKING:
    from warren.management.page.openid import OpenIdLogin
    from warren.management.page.rendering import Renderer
    from warren.server.node import Node

_log: Final = EventLog("management")

_FORM_TOKEN: Final = "csrf"
_TOKEN_HEADER: Final = "x-csrf"
# Nothing but our own files, and no script or style in the text of a page.
_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_OUR_FAULT: Final = "Warren could not make this page; the broker's log says why."
_REASONS: Final = {
    404: "There is no such page.",
    405: "This page cannot be asked for like that.",
}


class Site:
    """An ASGI application for every address that is nobody else's."""

    def __init__(self, node: Node, dispatch: ASGIApp, resources: Sequence[Resource]) -> None:
        self.node = node
        self.dispatch = dispatch
        self.resources = resources
        self.signer = Signer(key_of(node), time.time)
        self.foreign_logins = ForeignLogins()
        self.openid: OpenIdLogin | None = None
        self._renderer: Renderer | None = None
        self._tree = PathTree[Page]()
        self._opening = asyncio.Lock()

    @property
    def renderer(self) -> Renderer:
        assert self._renderer is not None, "the site is open before anything is shown"
        return self._renderer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._renderer is None:
            await self._open_once()
        request = Request(scope, receive)
        response = await self._response(request)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    async def _open_once(self) -> None:
        async with self._opening:
            if self._renderer is None:
                self._renderer = await asyncio.to_thread(self._open)

    def _open(self) -> Renderer:
        from warren.management.page.contents import PAGES
        from warren.management.page.rendering import Renderer

        for page in PAGES:
            self._tree.add(page.path, page)
        if self.node.config.page_login.is_on:
            from warren.management.page.openid import OpenIdLogin

            self.openid = OpenIdLogin(self.node, self.signer)
        return Renderer()

    async def _response(self, request: Request) -> Response:
        try:
            found = self._tree.find(path_parts(request))
        except UnicodeDecodeError:
            found = None
        page, parts = (None, {}) if found is None else found
        visit = Visit(self, request, parts)
        try:
            self._recognise(visit)
            return await self._respond(visit, page)
        except Refused as refused:
            return await _refusal_page(visit, refused.status, refused.reason)
        except Refusal as refusal:
            return await _refusal(visit, refusal)
        except MetadataUnavailable as error:
            return await _refusal(visit, Refusal(503, "unavailable", str(error)))
        except ClientDisconnect:
            return Response(b"", 400)
        except Exception as error:  # noqa: BLE001 - a fault of ours; who looks gets a page all the same
            _log.exception("page cannot be shown", error, path=request.url.path)
            return await _refusal(visit, Refusal(500, "Internal Server Error", _OUR_FAULT))

    async def _respond(self, visit: Visit, page: Page | None) -> Response:
        if page is None:
            raise no_such_object()
        method = visit.request.method
        handler = page.handler(method)
        if handler is None:
            raise EmptyRefusal(405)
        if not page.is_open and not visit.is_signed_in:
            return _to_login(visit)
        if method == "POST":
            _require_same_site(visit.request)
            await visit.read_form(_form_bytes_max(visit, page))
            if not page.is_open:
                self._require_token(visit)
        response = await handler(visit)
        if visit.is_signed_in and not page.is_open and page.path != LOGOUT_PATH:
            self._keep_signed_in(visit, response)
        return response

    def _recognise(self, visit: Visit) -> None:
        """Who has a session is signed in as long as it could log in again."""
        signer, access = self.signer, self.node.broker.access
        session = signer.read(visit.request.cookies.get(signer.cookie_name, ""))
        user = None if session is None else self._user_of(session)
        if session is None or user is None or not signer.is_of(session, user):
            return
        if self.node.ended_sessions.holds(user.name, signer.id_of(session)):
            return
        try:
            client = visit.request.client
            require_welcome(user, "" if client is None else client.host, access)
        except Refusal:
            return
        visit.sign_in(session, user)

    def _user_of(self, session: Session) -> User | None:
        foreign = self.foreign_logins.user_of(session, time.time())
        return foreign or self.node.broker.access.directory.user(session.user)

    def _require_token(self, visit: Visit) -> None:
        token = visit.request.headers.get(_TOKEN_HEADER) or visit.field(_FORM_TOKEN)
        if not self.signer.is_form_token(visit.session, token):
            raise Refused(403, "This form is out of date. Please reload the page and try again.")

    def _keep_signed_in(self, visit: Visit, response: Response) -> None:
        renewed = self.signer.renewed(visit.session)
        if renewed is not None:
            self.set_session(visit.request, response, self.signer.write(renewed))

    def set_session(self, request: Request, response: Response, value: str) -> None:
        self.set_cookie(request, response, self.signer.cookie_name, value, SESSION_S)

    def set_cookie(
        self,
        request: Request,
        response: Response,
        name: str,
        value: str,
        lasts_s: int | None = None,
    ) -> None:
        """Not for scripts, nor for forms of other sites, nor, if this is TLS, for what is not."""
        is_secure = request.url.scheme == "https"
        response.set_cookie(
            name, value, lasts_s, path="/", secure=is_secure, httponly=True, samesite="lax"
        )


def _form_bytes_max(visit: Visit, page: Page) -> int:
    """Only an administrator imports definitions; nobody else fills the memory with such a file."""
    is_trusted = visit.is_signed_in and ADMINISTRATOR in visit.user.tags
    return page.form_bytes_max if is_trusted else min(page.form_bytes_max, FORM_BYTES_MAX)


def _to_login(visit: Visit) -> Response:
    request = visit.request
    wanted = request.url.path
    if visit.is_partial:
        wanted = urlsplit(request.headers.get("hx-current-url", "/")).path
    url = LOGIN_PATH if wanted == "/" else f"{LOGIN_PATH}?next={quote(wanted, safe='')}"
    if visit.is_partial:
        return Response(b"", 401, {"hx-redirect": url})
    return RedirectResponse(url, 303)


def _require_same_site(request: Request) -> None:
    if is_foreign(request):
        raise Refused(403, "This form came from another site.")


async def _refusal(visit: Visit, refusal: Refusal) -> Response:
    """A page for a person, and what RabbitMQ answers for a program."""
    if visit.is_partial or "text/html" in visit.request.headers.get("accept", ""):
        reason = _REASONS.get(refusal.status, str(refusal.reason))
        return await _refusal_page(visit, refusal.status, reason)
    return refusal.response()


async def _refusal_page(visit: Visit, status: int, reason: str) -> Response:
    if visit.is_partial:
        return await visit.page("refusal_part.html", status, reason=reason)
    return await visit.page("refusal.html", status, code=status, reason=reason)
