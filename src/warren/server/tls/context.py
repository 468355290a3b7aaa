"""From options to OpenSSL: contexts for servers and clients, with errors that name key and file.

The event loop drops a connection whose handshake fails without flushing what OpenSSL had to say
about it, so that the client would see nothing but an end. `ServerContext` makes objects that first
let the alert be sent, and tell the acceptor (`tls.acceptor`) why.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from warren.config.tls import TlsOptions

_VERSIONS: Final = {
    "tlsv1": (ssl.TLSVersion.TLSv1, ssl.OP_NO_TLSv1),
    "tlsv1.1": (ssl.TLSVersion.TLSv1_1, ssl.OP_NO_TLSv1_1),
    "tlsv1.2": (ssl.TLSVersion.TLSv1_2, ssl.OP_NO_TLSv1_2),
    "tlsv1.3": (ssl.TLSVersion.TLSv1_3, ssl.OP_NO_TLSv1_3),
}
# Suites of TLS 1.3 are all good, and OpenSSL offers all of them whatever else is said.
_ALWAYS_ON: Final = "TLS_"
_CERTIFICATE: Final = b"CERTIFICATE"
_PRIVATE_KEY: Final = b"PRIVATE KEY"
_ENCRYPTED: Final = b"ENCRYPTED"
_FILE_BYTES_MAX: Final = 1_048_576
_AGAIN: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError)

# Hears of a failed handshake, once, before the peer does.
OnFailure = Callable[[ssl.SSLError], None]


class TlsConfigError(Exception):
    """TLS cannot be spoken as it is configured; the text is for the operator."""


class _ServerObject(ssl.SSLObject):
    on_failure: OnFailure | None = None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
            self._require_depth()
        except _AGAIN:
            raise
        except ssl.SSLError as error:
            tell, self.on_failure = self.on_failure, None
            if tell is None:
                raise
            tell(error)
            # To the loop this is a handshake that goes on, so it sends what there is to send.
            raise ssl.SSLWantReadError from error

    def _require_depth(self) -> None:
        """OpenSSL knows such a limit, and Python has no name for it."""
        depth = self.context.depth if isinstance(self.context, ServerContext) else None
        if depth is None:
            return
        chain = self._sslobj.get_verified_chain()  # type: ignore[attr-defined]
        if len(chain or ()) - 2 > depth:
            raise ssl.SSLError(1, f"more than {depth} certificates below its root (depth)")


class ServerContext(ssl.SSLContext):
    """`expect` is to be called by whoever starts a handshake, just before doing so."""

    sslobject_class = _ServerObject
    depth: int | None = None
    _expected: deque[OnFailure]

    def expect(self, on_failure: OnFailure) -> None:
        self._expected.append(on_failure)

    def forget(self, on_failure: OnFailure) -> None:
        """The handshake did not begin, or has ended."""
        if on_failure in self._expected:
            self._expected.remove(on_failure)

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """The loop begins handshakes in the order they were asked for."""
        made = super().wrap_bio(*arguments, **options)
        if isinstance(made, _ServerObject) and self._expected:
            made.on_failure = self._expected.popleft()
        return made


def server_context(options: TlsOptions, key: str) -> ServerContext:
    """`key` is what the options stand under in the file. Raises TlsConfigError."""
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context._expected = deque()
    context.depth = options.depth
    _require(options.certfile, key, "certfile")
    _configure(context, options, key)
    if options.asks_for_certificates:
        required = options.fail_if_no_peer_cert
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    if options.dhfile:
        _load(f"{key}.dhfile", options.dhfile, lambda: context.load_dh_params(options.dhfile))
    if not options.honor_cipher_order:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if not options.client_renegotiation:
        context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def client_context(options: TlsOptions, key: str) -> ssl.SSLContext:
    """For links: the other node's certificate is checked, its name is not. It proves by the
    cluster's secret who it is, and addresses of nodes are rarely in certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if not options.asks_for_certificates:
        context.verify_mode = ssl.CERT_NONE
    _configure(context, options, key)
    return context


def _configure(context: ssl.SSLContext, options: TlsOptions, key: str) -> None:
    if options.certfile:
        certificate, private = options.certfile, options.keyfile or options.certfile
        _check_file(f"{key}.certfile", certificate, _CERTIFICATE)
        content = _check_file(f"{key}.keyfile", private, _PRIVATE_KEY)
        if _ENCRYPTED in content and not options.password:
            raise TlsConfigError(f"{key}.keyfile: {private}: needs a password ({key}.password)")
        _load(
            f"{key}.certfile, {key}.keyfile",
            certificate if certificate == private else f"{certificate}, {private}",
            lambda: context.load_cert_chain(certificate, private, lambda: options.password),
        )
    if options.asks_for_certificates:
        _require(options.cacertfile, key, "cacertfile")
    if options.cacertfile:
        place = options.cacertfile
        _check_file(f"{key}.cacertfile", place, _CERTIFICATE)
        _load(f"{key}.cacertfile", place, lambda: context.load_verify_locations(place))
    _limit_versions(context, options, key)
    chosen = [name for name in options.ciphers if not name.startswith(_ALWAYS_ON)]
    if chosen:
        try:
            context.set_ciphers(":".join(chosen))
        except ssl.SSLError:
            raise TlsConfigError(f"{key}.ciphers: OpenSSL knows none of these") from None


def _limit_versions(context: ssl.SSLContext, options: TlsOptions, key: str) -> None:
    if not options.versions:
        raise TlsConfigError(f"{key}.versions: without any version there is no TLS")
    known = list(_VERSIONS)
    ranked = sorted(options.versions, key=known.index)
    context.minimum_version = _VERSIONS[ranked[0]][0]
    context.maximum_version = _VERSIONS[ranked[-1]][0]
    for name in known[known.index(ranked[0]) : known.index(ranked[-1])]:
        if name not in ranked:
            context.options |= _VERSIONS[name][1]


def _require(value: str, key: str, name: str) -> None:
    if not value:
        raise TlsConfigError(f"{key}.{name} is needed for TLS, and not set")


def _check_file(key: str, path: str, marker: bytes) -> bytes:
    """Its content, if that is what it should be; OpenSSL's own complaints name no file."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_FILE_BYTES_MAX)
    except OSError as error:
        raise TlsConfigError(f"{key}: {path} cannot be read: {error.strerror}") from error
    if marker not in content:
        raise TlsConfigError(f"{key}: {path}: no PEM file with a {marker.decode().lower()} in it")
    return content


def _load(key: str, path: str, load: Callable[[], object]) -> None:
    try:
        load()
    except (OSError, ValueError) as error:  # ssl.SSLError among them
        raise TlsConfigError(f"{key}: {path}: {_complaint(error)}") from None


def _complaint(error: Exception) -> str:
    reason = getattr(error, "reason", None) or str(error).partition(" (_ssl")[0]
    explained = {
        "KEY_VALUES_MISMATCH": "the private key is not that of the certificate",
        "[SSL] PEM lib": "not readable as PEM, or the password does not open the private key",
        "CA_MD_TOO_WEAK": "its signature is too weak for OpenSSL",
        "EE_KEY_TOO_SMALL": "its key is too short for OpenSSL",
    }
    return explained.get(reason, reason)
