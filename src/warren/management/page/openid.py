"""OpenID Connect: signing in to the page at a provider, with the authorization code flow and PKCE.

    browser                    node                              provider
    /login/openid  ----------> cookie: state, verifier
                   <---------- go to the provider
    signs in there ------------------------------------------->
                   <------------------------------------------- back, with a code
    /login/openid/callback --> state is that of the cookie?
                               code and verifier  ------------->
                               <-------------------------------- access token
                               the chain of backends verifies the token, as any other login
                   <---------- signed in

The token never reaches the browser. What was begun is in a signed cookie, so the node keeps nothing
of those who do not come back.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import msgspec

from warren.auth.backends import BackendError
from warren.config.auth import PageLogin
from warren.management.page.signing import Signer
from warren.server.backends.pool import KEY_THREADS, BackendPool
from warren.server.backends.signing_keys import KEY_SERVER_S
from warren.server.backends.web import WebClient, WebRequest, tls_context

if TYPE_CHECKING:
    from warren.server.node import Node

OPENID_PATH: Final = "/login/openid"
CALLBACK_PATH: Final = "/login/openid/callback"
BEGUN_S_MAX: Final = 600
"""Time that a user has to sign in at the provider."""
DISCOVERY_S_MAX: Final = 600
"""Time after which the provider's addresses are asked for again."""
_PURPOSE: Final = "openid"
_FORM: Final = {
    "content-type": "application/x-www-form-urlencoded",
    "accept": "application/json",
}


class Begun(msgspec.Struct, frozen=True):
    """A sign-in that was sent to the provider."""

    state: str
    verifier: str
    next: str
    expires_at_s: float


class OpenIdLogin:
    """Signs users in at the provider of a configuration. Raises BackendError."""

    def __init__(self, node: Node, signer: Signer) -> None:
        self._settings: PageLogin = node.config.page_login
        self._signer = signer
        tls = tls_context(node.config.auth_oauth2_https)
        self._client = WebClient(tls, KEY_SERVER_S, KEY_SERVER_S)
        self._pool = BackendPool("openid", KEY_THREADS, 2 * KEY_SERVER_S)
        self._endpoints: dict[str, str] = {}
        self._discovered_at_s = 0.0
        self.cookie_name = f"{signer.cookie_name}_openid"

    async def begin(self, redirect_uri: str, following: str) -> tuple[str, str]:
        """Return the provider's address for the browser, and the value of the cookie."""
        verifier = secrets.token_urlsafe(48)
        begun = Begun(secrets.token_urlsafe(), verifier, following, time.time() + BEGUN_S_MAX)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": self._settings.scopes,
            "state": begun.state,
            "code_challenge": challenge.decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        endpoint = await self._endpoint("authorization_endpoint")
        cookie = self._signer.sign(_PURPOSE, msgspec.json.encode(begun))
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", cookie

    def begun(self, cookie: str, state: str) -> Begun | None:
        """Return the sign-in that this browser began, if the provider answers that one."""
        data = self._signer.verified(_PURPOSE, cookie) if cookie else None
        if data is None:
            return None
        begun = msgspec.json.decode(data, type=Begun)
        is_same = hmac.compare_digest(begun.state.encode(), state.encode())
        return begun if is_same and time.time() < begun.expires_at_s else None

    async def token(self, begun: Begun, code: str, redirect_uri: str) -> bytes:
        """Return the access token that the provider gives for a code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": self._settings.client_id,
            "code_verifier": begun.verifier,
        }
        if self._settings.client_secret:
            form["client_secret"] = self._settings.client_secret
        endpoint = await self._endpoint("token_endpoint")
        request = WebRequest(endpoint, "POST", urlencode(form).encode(), dict(_FORM))
        answer = await self._asked(request)
        token = answer.get("access_token")
        if not isinstance(token, str) or not token:
            raise BackendError(f"{endpoint} gave no access token")
        return token.encode()

    async def _endpoint(self, name: str) -> str:
        now_s = time.monotonic()
        if not self._endpoints or now_s - self._discovered_at_s > DISCOVERY_S_MAX:
            base = self._settings.provider_url.rstrip("/")
            found = await self._asked(WebRequest(f"{base}/.well-known/openid-configuration"))
            self._endpoints = {key: value for key, value in found.items() if isinstance(value, str)}
            self._discovered_at_s = now_s
        endpoint = self._endpoints.get(name, "")
        if not endpoint.startswith("https://"):
            raise BackendError(f"the OpenID provider has no {name} with https")
        return endpoint

    async def _asked(self, request: WebRequest) -> dict[str, Any]:
        answer = await self._pool.run(lambda: self._client.send(request))
        if answer.status != 200:
            raise BackendError(f"{request.url} answered with status {answer.status}")
        try:
            content = json.loads(answer.body)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise BackendError(f"{request.url} answered with something else than JSON")
        return content
