"""Who is at the other end of an encrypted connection, and by which means, in RabbitMQ's words."""

from __future__ import annotations

import asyncio
import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from warren.config.tls import COMMON_NAME, DISTINGUISHED_NAME

# OpenSSL's names of what a distinguished name is made of, and how RabbitMQ writes them.
_ATTRIBUTES: Final = {
    "surname": "SN",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "TITLE",
    "countryName": "C",
    "serialNumber": "SERIALNUMBER",
    "pseudonym": "PSEUDONYM",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "streetAddress": "STREET",
    "userId": "UID",
}
_ALTERNATIVE_NAMES: Final = {"dns": "DNS", "ip": "IP Address", "email": "email", "uri": "URI"}
_SPECIAL: Final = re.compile(r'([,+"\\<>;])')
_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
# Key exchange, authentication and cipher, as in ECDHE-RSA-AES256-GCM-SHA384.
_AEAD: Final = ("GCM", "CCM", "CCM8", "POLY1305")

Name = tuple[tuple[tuple[str, str], ...], ...]


@dataclass(frozen=True, slots=True)
class TlsPeer:
    """What connection listings show. The last three are empty without a certificate."""

    protocol: str
    key_exchange: str
    cipher: str
    mac: str
    subject: str = ""
    issuer: str = ""
    validity: str = ""


def certificate_of(transport: asyncio.BaseTransport) -> dict[str, Any]:
    """Of the peer, as checked; empty if it showed none or was not asked."""
    encrypted = transport.get_extra_info("ssl_object")
    return (encrypted.getpeercert() if encrypted is not None else None) or {}


def peer_of(transport: asyncio.BaseTransport) -> TlsPeer | None:
    """None on a connection without TLS."""
    encrypted: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if encrypted is None:
        return None
    version = (encrypted.version() or "").lower()
    name = (encrypted.cipher() or ("", "", 0))[0]
    key_exchange, cipher, mac = suite_parts(name)
    certificate = certificate_of(transport)
    if not certificate:
        return TlsPeer(version, key_exchange, cipher, mac)
    return TlsPeer(
        version,
        key_exchange,
        cipher,
        mac,
        subject=distinguished_name(certificate.get("subject", ())),
        issuer=distinguished_name(certificate.get("issuer", ())),
        validity=f"{_moment(certificate['notBefore'])} - {_moment(certificate['notAfter'])}",
    )


def suite_parts(name: str) -> tuple[str, str, str]:
    """Key exchange, cipher and MAC of an OpenSSL name, as Erlang would call them."""
    if name.startswith("TLS_"):
        cipher = "_".join(name.split("_")[1:-1]).lower()
        return "any", cipher, "aead"
    parts = re.sub(r"(AES|CAMELLIA|ARIA)(\d)", r"\1-\2", name).split("-")
    exchange = []
    while parts and parts[0] in {"ECDHE", "DHE", "RSA", "ECDSA", "DSS", "PSK"}:
        exchange.append(parts.pop(0).lower())
    is_aead = any(part in _AEAD for part in parts)
    if is_aead and parts[-1].startswith("SHA"):
        parts.pop()
    mac = "aead" if is_aead or not parts else parts.pop().lower()
    if not is_aead:
        parts.append("cbc")
    return "_".join(exchange) or "rsa", "_".join(parts).lower(), mac


def distinguished_name(name: Name) -> str:
    """As RFC 4514 has it, last part first, which is also the name of a user for EXTERNAL."""
    return ",".join("+".join(map(_attribute, part)) for part in reversed(name))


def login_name(certificate: dict[str, Any], source: str, kind: str, index: int) -> str:
    """Whom a certificate is for; empty if it does not say. `kind` and `index` choose among
    alternative names."""
    subject: Name = certificate.get("subject", ())
    if source == DISTINGUISHED_NAME:
        return distinguished_name(subject)
    if source == COMMON_NAME:
        return ",".join(value for part in subject for name, value in part if name == "commonName")
    wanted = _ALTERNATIVE_NAMES[kind]
    names = [value for name, value in certificate.get("subjectAltName", ()) if name == wanted]
    return names[index] if index < len(names) else ""


def _attribute(attribute: tuple[str, str]) -> str:
    name, value = attribute
    escaped = _SPECIAL.sub(r"\\\1", value)
    if escaped[:1] in {" ", "#"}:
        escaped = "\\" + escaped
    if value.endswith(" ") and len(value) > 1:
        escaped = escaped[:-1] + "\\ "
    return f"{_ATTRIBUTES.get(name, name)}={escaped}"


def _moment(text: str) -> str:
    """From OpenSSL's `Nov 16 03:25:19 2026 GMT`."""
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC).strftime(_TIME_FORMAT)
