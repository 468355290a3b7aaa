"""A node that cannot speak TLS as it is told to does not start, and says which file is why."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_process import BrokerProcess, free_port
from certificates import Authority, Issued

EXIT_UNAVAILABLE = 69


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def server(authority: Authority) -> Issued:
    return authority.issue("server")


def failure_of(directory: Path, options: str) -> str:
    broker = BrokerProcess(directory, f"listeners.ssl.1 = 127.0.0.1:{free_port()}\n{options}")
    process = broker.launch()
    assert process.wait(200) == EXIT_UNAVAILABLE
    (line,) = [line for line in broker.log().splitlines() if line.startswith("Error: ")]
    return line.removeprefix("Error: ")


def options(certfile: Path, keyfile: Path) -> str:
    return f"ssl_options.certfile = {certfile}\nssl_options.keyfile = {keyfile}\n"


def test_without_a_certificate(tmp_path: Path) -> None:
    assert failure_of(tmp_path, "") == "ssl_options.certfile is needed for TLS, and not set"


def test_with_a_certificate_that_is_not_there(tmp_path: Path, server: Issued) -> None:
    missing = tmp_path / "missing.pem"
    assert failure_of(tmp_path, options(missing, server.keyfile)) == (
        f"ssl_options.certfile: {missing} cannot be read: No such file or directory"
    )


def test_with_a_key_that_is_a_directory(tmp_path: Path, server: Issued) -> None:
    assert failure_of(tmp_path, options(server.certfile, tmp_path)) == (
        f"ssl_options.keyfile: {tmp_path} cannot be read: Is a directory"
    )


def test_with_the_key_of_another_certificate(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    other = authority.issue("other")
    assert failure_of(tmp_path, options(server.certfile, other.keyfile)) == (
        f"ssl_options.certfile, ssl_options.keyfile: {server.certfile}, {other.keyfile}: "
        "the private key is not that of the certificate"
    )


def test_with_a_file_that_is_no_certificate(tmp_path: Path, server: Issued) -> None:
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("this is not PEM")
    assert failure_of(tmp_path, options(garbage, server.keyfile)) == (
        f"ssl_options.certfile: {garbage}: no PEM file with a certificate in it"
    )


def test_with_an_encrypted_key_and_no_password(tmp_path: Path, authority: Authority) -> None:
    locked = authority.issue("locked", password="right")
    assert failure_of(tmp_path, options(locked.certfile, locked.keyfile)) == (
        f"ssl_options.keyfile: {locked.keyfile}: needs a password (ssl_options.password)"
    )


def test_with_the_wrong_password_for_the_key_which_is_not_told(
    tmp_path: Path, authority: Authority
) -> None:
    locked = authority.issue("locked", password="right")
    said = options(locked.certfile, locked.keyfile) + "ssl_options.password = wr0ng-secret\n"
    failure = failure_of(tmp_path, said)
    assert failure.endswith("the password does not open the private key")
    assert "wr0ng-secret" not in failure


def test_with_verify_peer_and_nobody_to_trust(tmp_path: Path, server: Issued) -> None:
    said = options(server.certfile, server.keyfile) + "ssl_options.verify = verify_peer\n"
    assert failure_of(tmp_path, said) == "ssl_options.cacertfile is needed for TLS, and not set"


def test_with_ciphers_nobody_knows(tmp_path: Path, server: Issued) -> None:
    said = options(server.certfile, server.keyfile) + "ssl_options.ciphers.1 = ROT13\n"
    assert failure_of(tmp_path, said) == "ssl_options.ciphers: OpenSSL knows none of these"


def test_with_an_expired_certificate_of_its_own_it_starts_and_warns(
    tmp_path: Path, authority: Authority
) -> None:
    expired = authority.issue("expired", days=-2)
    said = options(expired.certfile, expired.keyfile)
    broker = BrokerProcess(tmp_path, f"listeners.ssl.1 = 127.0.0.1:{free_port()}\n{said}")
    broker.start()
    broker.stop()
    (line,) = [line for line in broker.log().splitlines() if "certificate is expired" in line]
    assert str(expired.certfile) in line
    assert "key=ssl_options.certfile" in line
