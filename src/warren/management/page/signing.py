"""What a browser keeps for us, signed so that nobody else can have made it: who is signed in.

A session is in its cookie and nowhere else, so that any node of a cluster knows it: their keys come
of the secret that they share. A node alone keeps a key in its data directory, for itself to read.
So a session survives a restart of the broker. Only the ends of sessions that were ended before
their time are remembered (`server/ended_sessions.py`).
The cookie has no password, only something that changes when the password does: who changes it ends
all sessions of that user. Beside it every session has a secret of its own; what is made of that is
in every form, and a form without it is not from a page of ours.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from warren.auth.users import User
from warren.cluster.link.handshake import stretched
from warren.model.logs import EventLog
from warren.server.data_directory import PAGE_KEY_FILE

if TYPE_CHECKING:
    from warren.server.node import Node

SESSION_S: Final = 8 * 3600
SESSION_S_MAX: Final = 24 * 3600
"""After that a user has to sign in again, however busy: a stolen cookie does not live for ever."""
COOKIE_CHARS_MAX: Final = 4_000
_KEY_BYTES: Final = 32
_PURPOSE: Final = b"warren management page"

_log: Final = EventLog("management")


class Session(msgspec.Struct, frozen=True):
    user: str
    secret: str
    credential: str
    expires_at_s: float
    ends_at_s: float = 0.0
    """Time beyond which the session is not renewed."""


class Signer:
    """`now_s` is the time of day."""

    def __init__(self, key: bytes, now_s: Callable[[], float]) -> None:
        self._key = key
        self._now_s = now_s
        # Cookies do not tell ports apart, so brokers on one machine need names of their own.
        self.cookie_name = f"warren_session_{self._digest(b'name', b'')[:8]}"

    def begin(self, user: User) -> Session:
        now_s = self._now_s()
        return Session(
            user.name,
            secrets.token_urlsafe(),
            self._credential(user),
            now_s + SESSION_S,
            now_s + SESSION_S_MAX,
        )

    def renewed(self, session: Session) -> Session | None:
        """Return a longer session for a user who is here when half of the time is over, or None."""
        if session.expires_at_s - self._now_s() > SESSION_S / 2:
            return None
        expires_at_s = min(self._now_s() + SESSION_S, session.ends_at_s)
        if expires_at_s <= session.expires_at_s:
            return None
        return msgspec.structs.replace(session, expires_at_s=expires_at_s)

    def write(self, session: Session) -> str:
        return self.sign("session", msgspec.json.encode(session))

    def read(self, cookie: str) -> Session | None:
        """None if it is not from us, or over."""
        data = self.verified("session", cookie)
        if data is None:
            return None
        session = msgspec.json.decode(data, type=Session)
        return session if self._now_s() < session.expires_at_s else None

    def is_of(self, session: Session, user: User) -> bool:
        """Whether the user has the password still that the session began with."""
        return hmac.compare_digest(session.credential, self._credential(user))

    def id_of(self, session: Session) -> str:
        """Return the id by which a session is ended: the same when it is renewed."""
        return self._digest(b"end", session.secret.encode())

    def form_token(self, session: Session) -> str:
        return self._digest(b"form", session.secret.encode())

    def is_form_token(self, session: Session, token: str) -> bool:
        return hmac.compare_digest(self.form_token(session).encode(), token.encode())

    def sign(self, purpose: str, data: bytes) -> str:
        encoded = base64.urlsafe_b64encode(data).decode().rstrip("=")
        return f"{encoded}.{self._digest(purpose.encode(), data)}"

    def verified(self, purpose: str, signed: str) -> bytes | None:
        if len(signed) > COOKIE_CHARS_MAX:
            return None
        encoded, _, digest = signed.partition(".")
        try:
            data = base64.urlsafe_b64decode(encoded.encode() + b"==")
        except (binascii.Error, ValueError):
            return None
        is_ours = hmac.compare_digest(
            self._digest(purpose.encode(), data).encode(), digest.encode()
        )
        return data if is_ours else None

    def _credential(self, user: User) -> str:
        # A user of another backend is never taken for an internal one of the same name.
        proof = f"{user.name}\0{user.password_hash}" + (f"\0{user.origin}" if user.origin else "")
        return self._digest(b"credential", proof.encode())

    def _digest(self, purpose: bytes, data: bytes) -> str:
        return hmac.new(self._key, purpose + b"\0" + data, hashlib.sha256).hexdigest()


def key_of(node: Node) -> bytes:
    """Return the key of all nodes of a cluster, or of one on its own: there it is in a file."""
    secret = node.config.cluster_secret
    if node.cluster is None or not secret:
        return kept_key(node.config.data_dir / PAGE_KEY_FILE)
    return hmac.new(stretched(secret), _PURPOSE, hashlib.sha256).digest()


def kept_key(path: Path) -> bytes:
    """Return the key that is there, or else put one there that nobody else may read."""
    try:
        key = path.read_bytes() if path.exists() else b""
        if len(key) == _KEY_BYTES:
            return key
        key = secrets.token_bytes(_KEY_BYTES)
        draft = path.with_name(f"{path.name}.new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        _log.warning("sessions of the page end with this process", reason=error)
        return secrets.token_bytes(_KEY_BYTES)
    return key
