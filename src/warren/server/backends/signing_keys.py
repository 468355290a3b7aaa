"""Signing keys of tokens: from PEM files, and from a server (JWKS) that is asked for new ones."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warren.auth.backends import BackendError
from warren.model.clock import Clock
from warren.model.logs import EventLog
from warren.server.backends.pool import BackendPool
from warren.server.backends.web import WebClient, WebRequest

if TYPE_CHECKING:
    from jwt import PyJWK

REFRESH_MS_MIN: Final = 10_000
"""Shortest time between two looks at the key server: tokens may name keys that nobody has."""
KEYS_MAX: Final = 1_000
KEY_SERVER_S: Final = 10.0
# What verifies a key of each kind; a token cannot choose another kind than its key's.
_OF_KIND: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
    "oct": ("HS256", "HS384", "HS512"),
}

_log = EventLog("access")


class UnusableKey(Exception):
    """A key file or a key of the server cannot be read."""


class SigningKey:
    """Key with which a token's signature is verified, and the algorithms that it is for."""

    def __init__(self, key: Any, algorithms: tuple[str, ...]) -> None:
        self.key = key
        self.algorithms = algorithms


def key_of_pem(path: str) -> SigningKey:
    """Raises UnusableKey."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    kinds: tuple[tuple[Any, str], ...] = (
        (rsa.RSAPublicKey, "RSA"),
        (ec.EllipticCurvePublicKey, "EC"),
        ((ed25519.Ed25519PublicKey, ed448.Ed448PublicKey), "OKP"),
    )
    try:
        key = load_pem_public_key(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise UnusableKey(f"{path}: not a public key in PEM format: {error}") from None
    for classes, kind in kinds:
        if isinstance(key, classes):
            return SigningKey(key, _OF_KIND[kind])
    raise UnusableKey(f"{path}: a key of this kind verifies no token")


def key_of_jwk(description: dict[str, Any]) -> SigningKey | None:
    """Return a key of a key server, or None if it is for something else."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    algorithms = _OF_KIND.get(str(description.get("kty")))
    if algorithms is None or description.get("use", "sig") != "sig":
        return None
    try:
        key: PyJWK = PyJWK(description, algorithm=description.get("alg") or algorithms[0])
    except PyJWTError as error:
        _log.warning("signing key cannot be used", kid=description.get("kid"), reason=error)
        return None
    named = description.get("alg")
    return SigningKey(key.key, (named,) if named in algorithms else algorithms)


class KeyRing:
    """Keys by their id. `client` and `url` are those of the key server, if there is one."""

    def __init__(
        self,
        files: dict[str, SigningKey],
        clock: Clock,
        url: str = "",
        client: WebClient | None = None,
        pool: BackendPool | None = None,
    ) -> None:
        self._files = files
        self._clock = clock
        self._url = url
        self._client = client
        self._pool = pool
        self._fetched: dict[str, SigningKey] = {}
        self._looked_at_ms: int | None = None
        self._looking: asyncio.Future[None] | None = None

    async def key(self, key_id: str) -> SigningKey | None:
        """Return the key, looking at the server if it is new. Raises BackendError."""
        known = self._known(key_id)
        if known is None and self._url:
            await self._look()
            known = self._known(key_id)
        return known

    async def _look(self) -> None:
        """Look at the server's keys; logins that come meanwhile wait for the same look."""
        if self._looking is None and self._may_look():
            self._looking = asyncio.ensure_future(self._fetch())
            self._looking.add_done_callback(self._looked)
        if self._looking is not None:
            await asyncio.shield(self._looking)

    def _looked(self, look: asyncio.Future[None]) -> None:
        self._looking = None
        if not look.cancelled():
            look.exception()  # told to whoever waits; if nobody does any more, to nobody

    def _known(self, key_id: str) -> SigningKey | None:
        return self._files.get(key_id) or self._fetched.get(key_id)

    def _may_look(self) -> bool:
        now_ms = self._clock.now_ms()
        if self._looked_at_ms is not None and now_ms - self._looked_at_ms < REFRESH_MS_MIN:
            return False
        self._looked_at_ms = now_ms
        return True

    async def _fetch(self) -> None:
        client, url = self._client, self._url
        assert client is not None, "a key server has a client"
        assert self._pool is not None, "a key server has threads"
        try:
            answer = await self._pool.run(lambda: client.send(WebRequest(url)))
            if answer.status != 200:
                raise BackendError(f"{url} answered with status {answer.status}")
            described = json.loads(answer.body)["keys"]
            keys = {
                str(each.get("kid", "")): key
                for each in described[:KEYS_MAX]
                if (key := key_of_jwk(each)) is not None
            }
        except BackendError:
            self._looked_at_ms = None  # a server that was down may be up for the next login
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackendError(f"{url}: not a set of signing keys: {error}") from None
        self._fetched = keys
        _log.info("signing keys fetched", url=url, keys=len(keys))
