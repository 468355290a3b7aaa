"""OAuth 2.0 backend: the password is a token (JWT), and its scopes are the permissions.

A token is verified once, when it is shown. What it permits is known from its scopes, so nobody is
asked later, and the checks of a publish cost what they cost for internal users. A token that has
expired permits nothing; the connection is closed at that time, unless `connection.update-secret`
has brought another token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from warren.auth.backends import OAUTH2, Attempt, Identity
from warren.auth.questions import PERMITTED, REFUSED, Question, Verdict
from warren.auth.token_scopes import (
    ScopePermission,
    audiences_of,
    permissions_of,
    scopes_of,
    tags_of,
    without_prefix,
)
from warren.config.auth import Oauth2Backend as Oauth2Settings
from warren.model.clock import Clock
from warren.model.errors import LoginRefused
from warren.server.backends.signing_keys import KeyRing, SigningKey

TOKEN_BYTES_MAX: Final = 65_536
NOT_BEFORE_LEEWAY_S: Final = 30
_FAILED: Final = "Authentication using an OAuth 2/JWT token failed: "


@dataclass(frozen=True, slots=True)
class TokenState:
    """Decoded token: its permissions, and when it ends (seconds since the epoch)."""

    permissions: tuple[ScopePermission, ...] = field(repr=False)
    expires_at_s: int | None


class Oauth2Backend:
    name = OAUTH2

    def __init__(self, settings: Oauth2Settings, keys: KeyRing, clock: Clock) -> None:
        self._settings = settings
        self._keys = keys
        self._clock = clock
        prefix = settings.scope_prefix
        self._prefix = f"{settings.resource_server_id}." if prefix is None else prefix

    async def log_in(self, attempt: Attempt) -> Identity:
        claims = await self._verified(attempt.password)
        settings = self._settings
        found = scopes_of(claims, settings.resource_server_id, settings.additional_scopes_key)
        scopes = without_prefix(found, self._prefix)
        ends_at_s = _expiry_of(claims)
        state = TokenState(permissions_of(scopes), ends_at_s)
        if (expired := self._expired(state)) is not None:
            raise LoginRefused(_FAILED + expired)
        return Identity(
            self._name_of(claims, attempt.name),
            tags_of(scopes),
            state,
            None if ends_at_s is None else 1000 * ends_at_s,
        )

    async def authorize(self, attempt: Attempt) -> Identity:
        return replace(await self.log_in(attempt), tags=())

    def known(self, who: Identity, question: Question) -> Verdict:
        state = who.state
        assert isinstance(state, TokenState), "identities of this backend have a token"
        if (expired := self._expired(state)) is not None:
            return Verdict(False, expired)
        is_permitted = any(each.permits(question) for each in state.permissions)
        return PERMITTED if is_permitted else REFUSED

    async def ask(self, who: Identity, question: Question) -> Verdict:
        return self.known(who, question)

    async def renew(self, who: Identity, secret: bytes) -> Identity:
        renewed = await self.log_in(Attempt(who.name, secret))
        if renewed.name != who.name:
            raise LoginRefused("the new token is of another user")
        return renewed

    async def _verified(self, password: bytes | None) -> Mapping[str, Any]:
        """Return the claims of a token for this broker. Raises LoginRefused, BackendError."""
        import jwt

        if not password or len(password) > TOKEN_BYTES_MAX:
            raise LoginRefused(f"{_FAILED}provided token is invalid")
        try:
            header = jwt.get_unverified_header(password)
            key = await self._key_of(header)
            claims: dict[str, Any] = jwt.decode(
                password,
                key.key,
                algorithms=self._algorithms(key),
                leeway=NOT_BEFORE_LEEWAY_S,
                options={"verify_aud": False, "verify_exp": False, "verify_iat": False},
            )
        except jwt.InvalidSignatureError:
            raise LoginRefused(f"{_FAILED}signature_invalid") from None
        except jwt.PyJWTError as error:
            raise LoginRefused(f"{_FAILED}provided token is invalid ({error})") from None
        self._require_audience(claims)
        return claims

    async def _key_of(self, header: Mapping[str, Any]) -> SigningKey:
        key_id = header.get("kid") or self._settings.default_key
        if not isinstance(key_id, str) or not key_id:
            raise LoginRefused(f"{_FAILED}no_key")
        key = await self._keys.key(key_id)
        if key is None:
            raise LoginRefused(f"{_FAILED}key_not_found")
        return key

    def _algorithms(self, key: SigningKey) -> list[str]:
        accepted = self._settings.algorithms
        return [name for name in key.algorithms if not accepted or name in accepted]

    def _require_audience(self, claims: Mapping[str, Any]) -> None:
        if not self._settings.verify_aud:
            return
        wanted, audiences = self._settings.resource_server_id, audiences_of(claims)
        if wanted not in audiences:
            raise LoginRefused(f"{_FAILED}'{wanted}' is not in the audience {audiences}")

    def _name_of(self, claims: Mapping[str, Any], given: str) -> str:
        """Return the user's name: RabbitMQ 3.10 has client_id before sub."""
        for claim in (*self._settings.preferred_username_claims, "client_id", "sub"):
            name = claims.get(claim)
            if isinstance(name, str) and name:
                return name
        if not given:
            raise LoginRefused(f"{_FAILED}the token names no user")
        return given

    def _expired(self, state: TokenState) -> str | None:
        now_s = self._clock.wall_seconds()
        if state.expires_at_s is None or now_s < state.expires_at_s:
            return None
        return (
            f"Provided JWT token has expired at timestamp {state.expires_at_s} "
            f"(validated at {now_s})"
        )


def _expiry_of(claims: Mapping[str, Any]) -> int | None:
    """Return the time at which a token ends. Raises LoginRefused if that makes no sense."""
    ends_at_s = claims.get("exp")
    if ends_at_s is None:
        return None
    if isinstance(ends_at_s, bool) or not isinstance(ends_at_s, int | float):
        raise LoginRefused(f"{_FAILED}exp is not a number")
    return int(ends_at_s)
