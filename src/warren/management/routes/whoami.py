"""/api/whoami: the user that asks."""

from __future__ import annotations

from typing import Final

from warren.management.call import Call
from warren.management.caller import ANY_TAG
from warren.management.json import JsonObject
from warren.management.resource import Resource


async def _show(call: Call) -> JsonObject:
    return {"name": call.user.name, "tags": sorted(call.user.tags)}


RESOURCES: Final = (Resource(path="/whoami", rule=ANY_TAG, get=_show),)
