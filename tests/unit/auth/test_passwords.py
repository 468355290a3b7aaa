"""Stored passwords are RabbitMQ's, byte for byte."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.auth.passwords import ALGORITHMS, MD5, SHA256, SHA512, hash_password, verify

# From RabbitMQ's documentation of password hashing.
SALT = bytes.fromhex("908DC60A")
STORED = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


def test_the_documented_example_is_met() -> None:
    """T160: the value a definitions file carries for the password test12."""
    assert hash_password("test12", salt=SALT) == STORED
    assert verify("test12", STORED, SHA256)
    assert verify(b"test12", STORED, SHA256)
    assert not verify("test13", STORED, SHA256)
    assert not verify("", STORED, SHA256)


@pytest.mark.parametrize(("algorithm", "digest_bytes"), [(MD5, 16), (SHA256, 32), (SHA512, 64)])
def test_every_algorithm_is_salt_and_digest(algorithm: str, digest_bytes: int) -> None:
    stored = hash_password("geheim", algorithm)
    assert len(base64.b64decode(stored)) == 4 + digest_bytes
    assert verify("geheim", stored, algorithm)
    assert not verify("geheim", stored, next(iter(ALGORITHMS - {algorithm})))


def test_one_password_is_stored_differently_each_time() -> None:
    assert len({hash_password("same") for _ in range(20)}) == 20


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(sorted(ALGORITHMS)))
def test_a_password_fits_its_own_hash_only(password: str, algorithm: str) -> None:
    stored = hash_password(password, algorithm)
    assert verify(password.encode(), stored, algorithm)
    assert not verify(password.encode() + b"x", stored, algorithm)


@pytest.mark.parametrize(
    "stored", ["", "AAAA", "not base64!", "kI3GCg==", STORED[:-4], STORED + "="]
)
def test_nothing_fits_what_is_no_stored_password(stored: str) -> None:
    assert not verify("", stored, SHA256)
    assert not verify("test12", stored, SHA256)


def test_nothing_fits_an_unknown_algorithm() -> None:
    assert not verify("test12", STORED, "rot13")
