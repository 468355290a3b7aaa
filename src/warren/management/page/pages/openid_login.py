"""Pages of an OpenID login: to the provider, and back from it."""

from __future__ import annotations

from typing import Final

from starlette.responses import RedirectResponse, Response

from warren.auth.backends import BackendError
from warren.management.caller import log_in
from warren.management.errors import Refusal
from warren.management.page.address import Page
from warren.management.page.openid import BEGUN_S_MAX, CALLBACK_PATH, OPENID_PATH, OpenIdLogin
from warren.management.page.pages.login import own_path, refused, signed_in
from warren.management.page.visit import Visit
from warren.model.logs import EventLog

_log: Final = EventLog("management")

_UNFINISHED: Final = "Signing in was not finished, or took too long. Please try again."
_FAILED: Final = "The OpenID provider could not be asked; the broker's log says why."


async def _begin(visit: Visit) -> Response:
    following = own_path(visit.query.get("next", ""))
    openid = _provider(visit)
    try:
        address, cookie = await openid.begin(_callback(visit), following)
    except BackendError as error:
        _log.error("OpenID login failed", reason=error)
        return await refused(visit, 503, following, _FAILED)
    response = RedirectResponse(address, 303)
    visit.site.set_cookie(visit.request, response, openid.cookie_name, cookie, BEGUN_S_MAX)
    return response


async def _return(visit: Visit) -> Response:
    openid, query = _provider(visit), visit.query
    cookie = visit.request.cookies.get(openid.cookie_name, "")
    begun = openid.begun(cookie, query.get("state", ""))
    code = query.get("code", "")
    if begun is None or not code:
        return await refused(visit, 400, "/", _UNFINISHED)
    try:
        token = await openid.token(begun, code, _callback(visit))
        caller = await log_in(visit.request, "", token, visit.site.node)
    except BackendError as error:
        _log.error("OpenID login failed", reason=error)
        return await refused(visit, 503, begun.next, _FAILED)
    except Refusal as refusal:
        return await refused(visit, refusal.status, begun.next, f"{refusal.reason}.")
    response = signed_in(visit, caller.user, own_path(begun.next))
    response.delete_cookie(openid.cookie_name)
    return response


def _provider(visit: Visit) -> OpenIdLogin:
    openid = visit.site.openid
    if openid is None:
        raise Refusal(404, "Not Found", "Signing in by OpenID is not configured")
    return openid


def _callback(visit: Visit) -> str:
    return f"{str(visit.request.base_url).rstrip('/')}{CALLBACK_PATH}"


PAGES: Final = (
    Page(path=OPENID_PATH, get=_begin, is_open=True),
    Page(path=CALLBACK_PATH, get=_return, is_open=True),
)
