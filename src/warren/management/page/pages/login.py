"""Signing in and out."""

from __future__ import annotations

from typing import Final

from starlette.responses import RedirectResponse, Response

from warren.auth.users import User
from warren.management.caller import log_in
from warren.management.errors import Refusal
from warren.management.origins import is_own_address
from warren.management.page.address import LOGIN_PATH, LOGOUT_PATH, Page
from warren.management.page.visit import LOGIN_FORM_BYTES_MAX, Visit


async def _show(visit: Visit) -> Response:
    wanted = own_path(visit.query.get("next", ""))
    if visit.is_signed_in:
        return RedirectResponse(wanted, 303)
    return await refused(visit, 200, wanted, "")


async def _log_in(visit: Visit) -> Response:
    site, name = visit.site, visit.field("username")
    wanted = own_path(visit.field("next"))
    try:
        caller = await log_in(visit.request, name, visit.file("password"), site.node)
    except Refusal as refusal:
        return await refused(visit, refusal.status, wanted, f"{refusal.reason}.", name)
    return signed_in(visit, caller.user, wanted)


async def refused(visit: Visit, status: int, wanted: str, reason: str, name: str = "") -> Response:
    values = {"next": wanted, "name": name, "refusal": reason}
    return await visit.page("login.html", status, has_openid=_has_openid(visit), **values)


def signed_in(visit: Visit, user: User, wanted: str) -> Response:
    """Return the way on, with the cookie of a new session."""
    site, response = visit.site, RedirectResponse(wanted, 303)
    session = site.signer.begin(user)
    if user.origin:
        site.foreign_logins.keep(session, user)
    site.set_session(visit.request, response, site.signer.write(session))
    return response


def _has_openid(visit: Visit) -> bool:
    return visit.site.openid is not None


async def _log_out(visit: Visit) -> Response:
    await visit.api.delete("warren", "page-sessions", visit.site.signer.id_of(visit.session))
    visit.site.foreign_logins.forget(visit.session)
    response = RedirectResponse(LOGIN_PATH, 303)
    response.delete_cookie(visit.site.signer.cookie_name)
    return response


def own_path(path: str) -> str:
    """Return a path of ours: nobody is sent to another site by a link to this one."""
    return path if path.startswith("/") and is_own_address(path) else "/"


PAGES: Final = (
    Page(
        path=LOGIN_PATH,
        get=_show,
        post=_log_in,
        is_open=True,
        form_bytes_max=LOGIN_FORM_BYTES_MAX,
    ),
    Page(path=LOGOUT_PATH, post=_log_out),
)
