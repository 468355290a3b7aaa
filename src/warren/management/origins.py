"""Origins of requests: which come from pages of other sites, and which addresses are our own.

A browser that has a password for this node (from a dialogue for HTTP's basic authentication) sends
it along with whatever a page of another site asks for. Browsers also say where a request comes
from; programs that are no browsers say nothing, and are served.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

_OURS: Final = frozenset({"same-origin", "none"})


def is_foreign(request: Request) -> bool:
    """True if a page of another site made the request."""
    if request.headers.get("sec-fetch-site", "none") not in _OURS:
        return True
    origin = request.headers.get("origin")
    return origin is not None and _host_of(origin) != request.headers.get("host")


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def is_own_address(address: str) -> bool:
    """True for a path of this site, absolute or relative, to which a browser may be sent."""
    if not address.isprintable() or "\\" in address or address.startswith("//"):
        return False
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return not parts.scheme and not parts.netloc
