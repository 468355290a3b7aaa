"""What can be said about TLS, in RabbitMQ's words: the same for AMQP, HTTP and links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from warren.config.declaring import group, in_order, secret, setting
from warren.config.values import PORT_MAX, one_of, switch, text, whole_number

VERIFY_PEER: Final = "verify_peer"
VERIFY_NONE: Final = "verify_none"
DISTINGUISHED_NAME: Final = "distinguished_name"
COMMON_NAME: Final = "common_name"
SUBJECT_ALTERNATIVE_NAME: Final = "subject_alternative_name"
# Oldest first.
VERSIONS: Final = ("tlsv1", "tlsv1.1", "tlsv1.2", "tlsv1.3")


@dataclass(frozen=True, slots=True)
class TlsOptions:
    cacertfile: str = setting(
        "cacertfile", text, "", "PEM file of the authorities that peers' certificates may be from"
    )
    certfile: str = setting(
        "certfile", text, "", "PEM file of our certificate, and of those between it and its root"
    )
    keyfile: str = setting("keyfile", text, "", "PEM file of its private key")
    password: str = secret("password", str, "", "of that key, if it is encrypted")
    verify: str = setting(
        "verify",
        one_of(VERIFY_PEER, VERIFY_NONE),
        VERIFY_NONE,
        "verify_peer: ask peers for a certificate, and refuse those that show a wrong one",
    )
    fail_if_no_peer_cert: bool = setting(
        "fail_if_no_peer_cert", switch, False, "with verify_peer: refuse peers that show none"
    )
    depth: int | None = setting(
        "depth", whole_number(0, 255), None,
        "most certificates between a peer's and its root; as many as there are if not set",
    )  # fmt: skip
    versions: tuple[str, ...] = group(
        "versions", one_of(*VERSIONS), ("tlsv1.3", "tlsv1.2"), in_order, "versions of TLS spoken"
    )
    ciphers: tuple[str, ...] = group(
        "ciphers", text, (), in_order,
        "cipher suites up to TLS 1.2 by OpenSSL's names, best first; OpenSSL's own choice if none",
    )  # fmt: skip
    honor_cipher_order: bool = setting(
        "honor_cipher_order", switch, True, "our order of cipher suites goes before the client's"
    )
    client_renegotiation: bool = setting(
        "client_renegotiation", switch, False, "clients may negotiate anew (TLS 1.2 and older)"
    )
    dhfile: str = setting("dhfile", text, "", "PEM file of Diffie-Hellman parameters")

    @property
    def is_given(self) -> bool:
        """Whether there is anything to speak TLS with."""
        return bool(self.certfile or self.keyfile or self.cacertfile)

    @property
    def asks_for_certificates(self) -> bool:
        return self.verify == VERIFY_PEER


@dataclass(frozen=True, slots=True)
class ManagementTls(TlsOptions):
    port: int | None = setting(
        "port", whole_number(0, PORT_MAX), None, "port of the HTTP API over TLS, as 15671"
    )
    ip: str | None = setting("ip", text, None, "its address; that of the HTTP API if not set")


NO_TLS: Final = TlsOptions()
NO_HTTPS: Final = ManagementTls()
