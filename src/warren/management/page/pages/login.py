"""Signing in and out."""

from __future__ import annotations

from typing import Final

from starlette.responses import RedirectResponse, Response

from warren.management.caller import log_in
from warren.management.errors import Refusal
from warren.management.page.address import LOGIN_PATH, Page
from warren.management.page.visit import Visit


async def _show(visit: Visit) -> Response:
    wanted = _next(visit.query.get("next", ""))
    if visit.is_signed_in:
        return RedirectResponse(wanted, 303)
    return await visit.page("login.html", next=wanted, name="", refusal="")


async def _log_in(visit: Visit) -> Response:
    site, name = visit.site, visit.field("username")
    wanted = _next(visit.field("next"))
    try:
        guard = site.node.context.login_guard
        caller = log_in(visit.request, name, visit.file("password"), site.node.broker, guard)
    except Refusal as refusal:
        values = {"next": wanted, "name": name, "refusal": f"{refusal.reason}."}
        return await visit.page("login.html", refusal.status, **values)
    response = RedirectResponse(wanted, 303)
    session = site.signer.begin(caller.user)
    site.set_session(visit.request, response, site.signer.write(session))
    return response


async def _log_out(visit: Visit) -> Response:
    response = RedirectResponse(LOGIN_PATH, 303)
    response.delete_cookie(visit.site.signer.cookie_name)
    return response


def _next(path: str) -> str:
    """A place of ours: nobody is sent to another site by a link to this one."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_ours else "/"


PAGES: Final = (
    Page(path=LOGIN_PATH, get=_show, post=_log_in, is_open=True),
    Page(path="/logout", post=_log_out),
)
