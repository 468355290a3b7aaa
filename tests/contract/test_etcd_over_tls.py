"""An etcd that wants TLS, a certificate of ours, and a password."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from etcd_administration import (
    AUTH_ENABLE,
    ROLE_ADD,
    USER_ADD,
    USER_GRANT_ROLE,
    grant_request,
    role_request,
    user_request,
)
from etcd_process import free_port
from metadata_reading import contents
from warren.metadata.etcd import EtcdStore
from warren.metadata.etcd_address import parse_etcd_address
from warren.metadata.etcd_client import EtcdClient, EtcdError, NoAnswer
from warren.metadata.etcd_messages import RANGE, range_request
from warren.metadata.store import MetadataUnusable, Put

READY_S_MAX = 60.0


def make_certificate(directory: Path, name: str) -> None:
    """For this machine, by itself: its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "etcd of the tests")])
    now = dt.datetime.now(dt.UTC)
    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([here]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (directory / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (directory / f"{name}.key").write_bytes(private)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[str]:
    """The endpoint of an etcd that talks to holders of the certificate `own` alone."""
    for name in ("own", "other"):
        make_certificate(tmp_path, name)
    program = shutil.which("etcd")
    assert program is not None, "etcd is not installed (Debian: apt-get install etcd-server)"
    client, peer = f"https://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    command = [
        program, "--data-dir", str(tmp_path / "data"), "--log-level", "error", "--logger", "zap",
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
        "--initial-cluster", f"default={peer}", "--client-cert-auth",
        "--cert-file", str(tmp_path / "own.pem"), "--key-file", str(tmp_path / "own.key"),
        "--trusted-ca-file", str(tmp_path / "own.pem"),
    ]  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    yield client.removeprefix("https://")
    process.terminate()
    process.wait(20)


def url(endpoint: str, directory: Path, trusted: str = "own", login: str = "") -> str:
    files = {"cacertfile": f"{trusted}.pem", "certfile": "own.pem", "keyfile": "own.key"}
    query = "&".join(f"{name}={directory / file}" for name, file in files.items())
    return f"etcds://{login}{endpoint}?{query}"


async def set_password(client: EtcdClient) -> None:
    async with asyncio.timeout(READY_S_MAX):
        while True:
            try:
                await client.call(USER_ADD, user_request("root", "secret"))
                break
            except NoAnswer:
                await asyncio.sleep(0.1)  # etcd is starting
            except EtcdError as error:
                if "already exists" not in error.text:
                    raise
                break  # an earlier try was only slow
    await client.call(ROLE_ADD, role_request("root"))
    await client.call(USER_GRANT_ROLE, grant_request("root", "root"))
    await client.call(AUTH_ENABLE, b"")


async def test_it_is_used_with_the_right_certificate_and_password_alone(
    secured: str, tmp_path: Path
) -> None:
    client = EtcdClient(parse_etcd_address(url(secured, tmp_path)))
    await set_password(client)
    await client.close()

    store = EtcdStore(parse_etcd_address(url(secured, tmp_path, login="root:secret@")))
    await store.open()
    assert await store.transact([], [Put("a", b"1")])
    assert await contents(store) == {"a": b"1"}
    await store.close()

    wrong_password = parse_etcd_address(url(secured, tmp_path, login="root:guess@"))
    with pytest.raises(MetadataUnusable, match="refused user 'root'"):
        await EtcdStore(wrong_password).open()
    impostor = EtcdClient(parse_etcd_address(url(secured, tmp_path, trusted="other")))
    with pytest.raises(NoAnswer, match="certificate"):
        await impostor.call(RANGE, range_request(b"a"))
    unreadable = parse_etcd_address(url(secured, tmp_path, trusted="missing"))
    with pytest.raises(MetadataUnusable, match=r"missing\.pem"):
        await EtcdStore(unreadable).open()
