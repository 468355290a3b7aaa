"""Scripts, styles and pictures: read once, named after what is in them, kept by browsers."""

from __future__ import annotations

import hashlib
import mimetypes
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from starlette.responses import Response

from warren.management.page.address import Page
from warren.management.page.api_caller import Refused
from warren.management.page.visit import Visit

_FOLDER: Final = Path(__file__).parent / "static"
_KEPT: Final = "public, max-age=31536000, immutable"
_UNKNOWN: Final = "application/octet-stream"


class _File(NamedTuple):
    content: bytes
    media_type: str
    tag: str


@cache
def _files() -> dict[str, _File]:
    found = {}
    for path in sorted(_FOLDER.rglob("*.*")):
        content = path.read_bytes()
        media_type = mimetypes.guess_type(path.name)[0] or _UNKNOWN
        tag = hashlib.sha256(content).hexdigest()[:12]
        found[path.relative_to(_FOLDER).as_posix()] = _File(content, media_type, tag)
    return found


def static_url(name: str) -> str:
    return f"/static/{name}?{_files()[name].tag}"


async def _show(visit: Visit) -> Response:
    file = _files().get("/".join(visit.parts.values()))
    if file is None:
        raise Refused(404, "There is no such file.")
    return Response(file.content, 200, {"cache-control": _KEPT}, file.media_type)


PAGES: Final = (
    Page(path="/static/{file}", get=_show, is_open=True),
    Page(path="/static/{folder}/{file}", get=_show, is_open=True),
)
