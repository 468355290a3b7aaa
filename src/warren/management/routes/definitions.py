"""/api/definitions: all that can be declared, out of the broker and into it."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response, StreamingResponse

from warren.management.bodies import DEFINITIONS_BYTES_MAX
from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS
from warren.management.definitions_export import all_sections, head_of, vhost_sections, written
from warren.management.definitions_import import DefinitionsImport
from warren.management.errors import JSON_TYPE, bad_request
from warren.management.listing import NOT_CACHED
from warren.management.multipart import form_fields
from warren.management.origins import is_own_address
from warren.management.resource import Resource

_FORM: Final = "multipart/form-data"


async def _export(call: Call) -> Response:
    if "vhost" not in call.parts:
        pieces = written(head_of(is_whole=True), all_sections(call.node))
    else:
        vhost = call.find_vhost()
        if vhost is None:
            raise bad_request("vhost_not_found")
        pieces = written(head_of(is_whole=False), vhost_sections(call.node, vhost))
    return StreamingResponse(pieces, 200, {**NOT_CACHED, **_disposition(call)}, JSON_TYPE)


def _disposition(call: Call) -> dict[str, str]:
    """A browser is told to save it under the name it asked for."""
    name = call.query.get("download")
    if name is None:
        return {}
    return {"content-disposition": f"attachment; filename={_header_text(name)}"}


def _header_text(text: str) -> str:
    """Without anything that would end the header."""
    return "".join(char for char in text if char.isprintable() and char.isascii())


async def _import(call: Call) -> Response | None:
    vhost = call.vhost.name if "vhost" in call.parts else None
    content_type = call.request.headers.get("content-type", "")
    raw = await call.raw_body(DEFINITIONS_BYTES_MAX)
    redirect = None
    if content_type.startswith(_FORM):
        fields = form_fields(content_type, raw)
        raw, redirect = fields.get("file", b""), fields.get("redirect")
    if redirect is not None and not is_own_address(redirect.decode("latin-1")):
        raise bad_request("redirect: not a path of this site")
    await DefinitionsImport(call.node, call.user.name, vhost).run(raw)
    if redirect is None:
        return None
    return Response(b"", 303, {"location": _header_text(redirect.decode("latin-1"))})


RESOURCES: Final = tuple(
    Resource(path=path, rule=ADMINISTRATORS, get=_export, post=_import)
    for path in ("/definitions", "/definitions/{vhost}", "/all-configuration")
)
