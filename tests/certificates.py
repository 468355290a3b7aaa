"""Certificates of the tests' own: an authority, and what it issues, as PEM files."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, each in a file."""

    certfile: Path
    keyfile: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


class Authority:
    """Signs what it is asked to, also what nobody should accept."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self._root = self._make(name, None, is_authority=True)

    @property
    def cacertfile(self) -> Path:
        return self._root.certfile

    def issue(
        self,
        name: str,
        days: int = 30,
        subject: x509.Name | None = None,
        password: str = "",
        below: Issued | None = None,
        is_authority: bool = False,
    ) -> Issued:
        """Good for localhost and 127.0.0.1; with a negative number of days it is expired."""
        return self._make(name, below or self._root, days, subject, password, is_authority)

    def _make(
        self,
        name: str,
        issuer: Issued | None,
        days: int = 30,
        subject: x509.Name | None = None,
        password: str = "",
        is_authority: bool = False,
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = subject or x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.UTC)
        names: list[x509.GeneralName] = [
            x509.DNSName("localhost"),
            x509.DNSName(f"{name}.example"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        ]
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.certificate.subject if issuer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - (400 * DAY))
            .not_valid_after(now + days * DAY)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
        )
        certificate = builder.sign(issuer.key if issuer else key, hashes.SHA256())
        return self._write(name, certificate, key, password)

    def _write(
        self,
        name: str,
        certificate: x509.Certificate,
        key: ec.EllipticCurvePrivateKey,
        password: str,
    ) -> Issued:
        certfile, keyfile = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        certfile.write_bytes(certificate.public_bytes(Encoding.PEM))
        cipher = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        keyfile.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, cipher))
        return Issued(certfile, keyfile, certificate, key)
