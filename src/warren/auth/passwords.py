"""Passwords as RabbitMQ stores them, so that exported users log in unchanged.

A stored password is base64 of four bytes of salt and then the digest of salt and password. That is
thin by today's measure, but it is the format of every definitions file; being quick, it also may
run on the event loop.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final

SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
MD5: Final = "rabbit_password_hashing_md5"

SALT_BYTES: Final = 4

_DIGESTS: Final[dict[str, Callable[[bytes], bytes]]] = {
    SHA256: lambda data: hashlib.sha256(data).digest(),
    SHA512: lambda data: hashlib.sha512(data).digest(),
    MD5: lambda data: hashlib.md5(data, usedforsecurity=False).digest(),
}
ALGORITHMS: Final = frozenset(_DIGESTS)


def hash_password(password: str | bytes, algorithm: str = SHA256, salt: bytes | None = None) -> str:
    """What to store for this password; raises KeyError for an unknown algorithm."""
    if salt is None:
        salt = secrets.token_bytes(SALT_BYTES)
    assert len(salt) == SALT_BYTES, "the length is part of the format"
    raw = password.encode() if isinstance(password, str) else password
    return base64.b64encode(salt + _DIGESTS[algorithm](salt + raw)).decode()


def verify(password: str | bytes, stored: str, algorithm: str) -> bool:
    """In constant time; never true for what is no stored password, such as the empty string."""
    if algorithm not in ALGORITHMS:
        return False
    try:
        salt = base64.b64decode(stored, validate=True)[:SALT_BYTES]
    except binascii.Error:
        return False
    if len(salt) < SALT_BYTES:
        return False
    return hmac.compare_digest(hash_password(password, algorithm, salt), stored)
