"""TLS settings, with RabbitMQ's keys: the same for AMQP, HTTP and the links between nodes."""

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
        "cacertfile", text, "", "PEM file of the CA certificates that verify the peer's certificate"
    )
    certfile: str = setting(
        "certfile",
        text,
        "",
        "PEM file of the node's certificate, with the intermediate ones after it",
    )
    keyfile: str = setting("keyfile", text, "", "PEM file of the private key of certfile")
    password: str = secret("password", str, "", "password of keyfile, if it is encrypted")
    verify: str = setting(
        "verify",
        one_of(VERIFY_PEER, VERIFY_NONE),
        VERIFY_NONE,
        "verify_peer: ask the peer for a certificate, and refuse one that cannot be verified",
    )
    fail_if_no_peer_cert: bool = setting(
        "fail_if_no_peer_cert",
        switch,
        False,
        "with verify_peer: refuse a peer without a certificate",
    )
    depth: int | None = setting(
        "depth", whole_number(0, 255), None,
        "most intermediate certificates between the peer's and its root; no limit if not set",
    )  # fmt: skip
    versions: tuple[str, ...] = group(
        "versions",
        one_of(*VERSIONS),
        ("tlsv1.3", "tlsv1.2"),
        in_order,
        "TLS versions that are accepted",
    )
    ciphers: tuple[str, ...] = group(
        "ciphers", text, (), in_order,
        "cipher suites up to TLS 1.2, with OpenSSL's names, best first; OpenSSL's default if none",
    )  # fmt: skip
    honor_cipher_order: bool = setting(
        "honor_cipher_order",
        switch,
        True,
        "prefer the node's order of cipher suites to the client's",
    )
    client_renegotiation: bool = setting(
        "client_renegotiation", switch, False, "clients may renegotiate (TLS 1.2 and older)"
    )
    dhfile: str = setting("dhfile", text, "", "PEM file of Diffie-Hellman parameters")

    @property
    def is_given(self) -> bool:
        """True if a certificate, key or CA file is configured."""
        return bool(self.certfile or self.keyfile or self.cacertfile)

    @property
    def asks_for_certificates(self) -> bool:
        return self.verify == VERIFY_PEER


@dataclass(frozen=True, slots=True)
class ManagementTls(TlsOptions):
    port: int | None = setting(
        "port", whole_number(0, PORT_MAX), None, "port of the HTTP API over TLS, as 15671"
    )
    ip: str | None = setting(
        "ip", text, None, "address of the HTTP API over TLS; management.tcp.ip if not set"
    )


NO_TLS: Final = TlsOptions()
NO_HTTPS: Final = ManagementTls()
