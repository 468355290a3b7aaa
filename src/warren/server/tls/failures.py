"""Why a handshake of TLS failed, in words for whoever has to mend it."""

from __future__ import annotations

import ssl
from typing import Final

PLAIN_CLIENT: Final = "the client does not speak TLS, and this port does nothing else"
TLS_CLIENT: Final = "the client speaks TLS, and this port does not"
# The first bytes of a TLS client: a handshake record.
_CLIENT_HELLO: Final = b"\x16\x03"

_EXPLAINED: Final = {
    "WRONG_VERSION_NUMBER": PLAIN_CLIENT,
    "HTTP_REQUEST": PLAIN_CLIENT,
    "HTTPS_PROXY_REQUEST": PLAIN_CLIENT,
    "UNKNOWN_PROTOCOL": PLAIN_CLIENT,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate",
    "NO_SHARED_CIPHER": "the client has no cipher suite that we would use",
    "UNSUPPORTED_PROTOCOL": "the client speaks other versions of TLS only",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not know who issued our certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept our certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "to the client our certificate is expired",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the client speaks other versions of TLS only",
}


def explain(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return "the client closed the socket"
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or error.strerror or str(error)
        return _EXPLAINED.get(reason, reason.lower().replace("_", " "))
    return str(error) or type(error).__name__


def is_client_hello(first_bytes: bytes) -> bool:
    """Whether somebody speaks TLS to a port that does not."""
    return first_bytes.startswith(_CLIENT_HELLO)
