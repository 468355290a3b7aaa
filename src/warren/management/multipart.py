"""Fields of multipart forms, which browsers send where a form may hold a file.

The parser looks for the boundary alone and copies each field once, so a form of many megabytes
takes milliseconds, whatever its lines look like; Python's parser for mail takes a step per line.
"""

from __future__ import annotations

from email.message import Message
from typing import Final

FIELDS_MAX: Final = 200
_HEAD_BYTES_MAX: Final = 4_096


def form_fields(content_type: str, raw: bytes) -> dict[str, bytes]:
    """Return the contents of the fields by name; the last of two with one name counts."""
    boundary = _parameter("content-type", content_type, "boundary")
    if not boundary:
        return {}
    mark = b"\r\n--" + boundary.encode()
    fields: dict[str, bytes] = {}
    for part in (b"\r\n" + raw).split(mark, FIELDS_MAX + 1)[1 : FIELDS_MAX + 1]:
        end_of_head = part.find(b"\r\n\r\n", 0, _HEAD_BYTES_MAX)
        if end_of_head < 0:
            continue
        name = _name_of(part[:end_of_head])
        if name:
            fields[name] = part[end_of_head + 4 :]
    return fields


def _name_of(head: bytes) -> str:
    for line in head.decode(errors="replace").split("\r\n"):
        header, _, value = line.partition(":")
        if header.strip().lower() == "content-disposition":
            return _parameter("content-disposition", value.strip(), "name")
    return ""


def _parameter(header: str, value: str, name: str) -> str:
    message = Message()
    message[header] = value
    found = message.get_param(name, header=header)
    return found if isinstance(found, str) else ""
