"""Who changed what, from where: a line in the log for each change made over the API.

Also what `warrenctl` and the management page do, since they ask the API. Bodies are never logged:
passwords are in them. Who was refused has a line of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.model.logs import EventLog

if TYPE_CHECKING:
    from warren.management.call import Call

CHANGING_METHODS: Final = frozenset({"PUT", "POST", "DELETE"})
_FAILURE: Final = 400
_CHARACTERS_MAX: Final = 200

_log = EventLog("audit")


def audit(call: Call, status: int) -> None:
    if status >= _FAILURE:
        return
    request = call.request
    client = request.client
    _log.info(
        "admin change",
        user=call.user.name,
        peer="unknown" if client is None else f"{client.host}:{client.port}",
        change=f"{request.method} {request.url.path}",
        status=status,
        by=request.headers.get("user-agent", "unknown")[:_CHARACTERS_MAX],
    )
