"""What a form with a file in it sends."""

from __future__ import annotations

import email


def form_fields(content_type: str, raw: bytes) -> dict[str, bytes]:
    """By the names of the fields."""
    message = email.message_from_bytes(b"Content-Type: " + content_type.encode() + b"\n\n" + raw)
    fields = {}
    for part in message.walk():
        name = part.get_param("name", header="content-disposition")
        payload = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(payload, bytes):
            fields[name] = payload
    return fields
