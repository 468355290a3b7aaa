"""When the certificates in a PEM file expire.

OpenSSL hands Python no more of our own certificate than that it is loaded, and what we want to know
is in a fixed place of its structure (X.509 in DER): each element is a tag, a length and a content.

    Certificate [ TBSCertificate [ [0] version, serial, signature, issuer, validity [ from, to ] ..
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_VERSION_TAG: Final = 0xA0
_UTC_TIME: Final = 0x17
_LONG_LENGTH: Final = 0x80
_FILE_BYTES_MAX: Final = 1_048_576


def expiry_of(path: str) -> datetime | None:
    """Of the certificate that expires first; None if there is none that could be read."""
    return min(expiries_of(path), default=None)


def expiries_of(path: str) -> list[datetime]:
    """Of all certificates in a file; none if it is not there, or not named."""
    if not path:
        return []
    try:
        with Path(path).open("rb") as file:
            content = file.read(_FILE_BYTES_MAX).decode("latin-1")
    except OSError:
        return []
    moments = []
    for piece in content.split(_BEGIN)[1:]:
        body, end, _ = piece.partition(_END)
        try:
            moments.append(_not_after(ssl.PEM_cert_to_DER_cert(f"{_BEGIN}{body}{end}")))
        except (ValueError, IndexError):
            continue
    return moments


def _not_after(der: bytes) -> datetime:
    _, certificate, _ = _element(der)
    _, rest, _ = _element(certificate)
    tag, _, behind = _element(rest)
    if tag == _VERSION_TAG:
        rest = behind
    for _ in ("serial number", "signature algorithm", "issuer"):
        _, _, rest = _element(rest)
    _, validity, _ = _element(rest)
    _, _, behind = _element(validity)
    tag, moment, _ = _element(behind)
    # Two digits of the year stand for 1950 to 2049, in Python for 1969 to 2068: near enough.
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(moment.decode("ascii"), form).replace(tzinfo=UTC)


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Tag and content of the first element, and what is behind it."""
    tag, length, start = data[0], data[1], 2
    if length & _LONG_LENGTH:
        size = length - _LONG_LENGTH
        length, start = int.from_bytes(data[2 : 2 + size], "big"), 2 + size
    if start + length > len(data):
        raise ValueError("cut short")
    return tag, data[start : start + length], data[start + length :]
