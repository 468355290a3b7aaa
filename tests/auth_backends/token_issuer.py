"""Issuer of tokens: signing keys over https, and an OpenID provider that asks nobody anything."""

from __future__ import annotations

import json
import secrets
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from certificates import Authority

AUDIENCE = "warren"


class TokenIssuer:
    """`claims` are those of the tokens that the page gets."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self.claims: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.key_requests = 0
        self._keys = {"first": rsa.generate_private_key(65537, 2048)}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        issued = self.authority.issue("issuer")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(issued.certfile, issued.keyfile)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}"

    @property
    def settings(self) -> str:
        return (
            f"auth_oauth2.resource_server_id = {AUDIENCE}\n"
            f"auth_oauth2.jwks_url = {self.url}/jwks\n"
            f"auth_oauth2.https.cacertfile = {self.authority.cacertfile}\n"
        )

    def new_key(self, key_id: str) -> None:
        self._keys[key_id] = rsa.generate_private_key(65537, 2048)

    def public_pem(self, key_id: str = "first") -> bytes:
        public = self._keys[key_id].public_key()
        return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def token(
        self,
        *scopes: str,
        lasts_s: int = 3600,
        key_id: str = "first",
        signed_by: rsa.RSAPrivateKey | None = None,
        **claims: Any,
    ) -> str:
        """Return a token of `ann` for the broker with these scopes."""
        payload: dict[str, Any] = {
            "sub": "ann",
            "aud": [AUDIENCE],
            "scope": " ".join(f"{AUDIENCE}.{scope}" for scope in scopes),
            "exp": int(time.time()) + lasts_s,
            **claims,
        }
        key = signed_by or self._keys[key_id]
        return jwt.encode(payload, key, algorithm="RS256", headers={"kid": key_id})

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def jwks(self) -> dict[str, Any]:
        self.key_requests += 1
        keys = []
        for key_id, key in self._keys.items():
            described = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
            keys.append({**described, "kid": key_id, "use": "sig", "alg": "RS256"})
        return {"keys": keys}

    def discovery(self) -> dict[str, str]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
        }

    def authorize(self, asked: dict[str, str]) -> str:
        """Return where the browser goes to: back, with a code."""
        code = secrets.token_urlsafe()
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def redeem(self, asked: dict[str, str]) -> dict[str, str] | None:
        begun = self.codes.pop(asked.get("code", ""), None)
        if begun is None or begun["redirect_uri"] != asked.get("redirect_uri"):
            return None
        challenge = jwt.utils.base64url_encode(_sha256(asked.get("code_verifier", ""))).decode()
        if begun["code_challenge"] != challenge or begun["code_challenge_method"] != "S256":
            return None
        scopes = self.claims.get("scopes", ("tag:administrator", "read:*/*"))
        others = {name: value for name, value in self.claims.items() if name != "scopes"}
        return {"access_token": self.token(*scopes, **others), "token_type": "Bearer"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                asked = dict(parse_qsl(parts.query))
                if parts.path == "/jwks":
                    self._reply(200, issuer.jwks())
                elif parts.path == "/.well-known/openid-configuration":
                    self._reply(200, issuer.discovery())
                elif parts.path == "/authorize":
                    self.send_response(302)
                    self.send_header("location", issuer.authorize(asked))
                    self.end_headers()
                else:
                    self._reply(404, {})

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                answer = issuer.redeem(dict(parse_qsl(raw.decode())))
                self._reply(400 if answer is None else 200, answer or {"error": "invalid_grant"})

            def _reply(self, status: int, content: dict[str, Any]) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Say nothing."""

        return Handler


def _sha256(text: str) -> bytes:
    from hashlib import sha256

    return sha256(text.encode()).digest()
