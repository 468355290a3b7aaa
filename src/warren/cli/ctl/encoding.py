"""encode and decode: values that RabbitMQ's configuration holds encrypted with a passphrase.

The format is RabbitMQ's: a term of Erlang's, encrypted with AES in CBC mode and a key derived by
PBKDF2; salt, initialisation vector and result in base64.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from typing import Any, Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Document
from warren.cli.ctl.verbs import Argument, Contact, Exit, Family, Kind, Option, Verb, error

KEY_BYTES: Final = {"aes_cbc256": 32, "aes_256_cbc": 32, "aes_192_cbc": 24, "aes_128_cbc": 16}
HASHES: Final = ("sha512", "sha384", "sha256", "sha224", "sha")
DEFAULT_CIPHER: Final = "aes_256_cbc"
DEFAULT_ITERATIONS: Final = 1000
# How RabbitMQ's server reads values, and what rabbitmqctl 3.10 encodes them with if not told.
DEFAULTS: Final = (
    (DEFAULT_CIPHER, "sha512", DEFAULT_ITERATIONS),
    ("aes_128_cbc", "sha256", 1),
)
BLOCK_BYTES: Final = 16
_BINARY: Final = re.compile(r'<<"(.*)">>', re.DOTALL)
_ENCRYPTED: Final = re.compile(r'\{\s*encrypted\s*,\s*<<"(.*)">>\s*\}')


def list_ciphers(call: Call) -> Answer:
    call.announce("Listing supported ciphers ...")
    return Document(f"[{','.join(KEY_BYTES)}]", list(KEY_BYTES))


def list_hashes(call: Call) -> Answer:
    call.announce("Listing supported hash algorithms ...")
    return Document(f"[{','.join(HASHES)}]", list(HASHES))


def encode(call: Call) -> Answer:
    value, passphrase = call.arguments
    call.announce("Encrypting value ...")
    found = _BINARY.fullmatch(value)
    term = (found[1] if found else value).encode()
    clear = b"\x83m" + len(term).to_bytes(4, "big") + term
    padding = BLOCK_BYTES - len(clear) % BLOCK_BYTES
    salt, vector = os.urandom(BLOCK_BYTES), os.urandom(BLOCK_BYTES)
    coder = _cipher(call, passphrase, salt, vector).encryptor()
    sealed = coder.update(clear + bytes([padding]) * padding) + coder.finalize()
    text = base64.b64encode(salt + vector + sealed).decode()
    return f'{{encrypted,<<"{text}">>}}'


def decode(call: Call) -> Answer:
    value, passphrase = call.arguments
    call.announce("Decrypting value ...")
    found = _ENCRYPTED.fullmatch(value) or _BINARY.fullmatch(value)
    try:
        data = base64.b64decode(found[1] if found else value, validate=True)
    except ValueError:
        data = b""
    if len(data) < 3 * BLOCK_BYTES or len(data) % BLOCK_BYTES:
        raise error("the value is not one that encode has made", Exit.DATA)
    salt, vector = data[:BLOCK_BYTES], data[BLOCK_BYTES : 2 * BLOCK_BYTES]
    for default in DEFAULTS:
        coder = _cipher(call, passphrase, salt, vector, default).decryptor()
        clear = coder.update(data[2 * BLOCK_BYTES :]) + coder.finalize()
        if 0 < clear[-1] <= BLOCK_BYTES and clear.startswith(b"\x83"):
            return _term(clear[1 : -clear[-1]])
    raise error(
        "Failed to decrypt the value. Things to check: is the passphrase correct? Are the "
        "cipher and hash algorithms the same as those used for encryption?",
        Exit.DATA,
    )


def _term(data: bytes) -> str:
    """Texts, which passwords are."""
    match data[:1]:
        case b"m":
            return f'<<"{data[5:].decode(errors="replace")}">>'
        case b"k":
            return f'"{data[3:].decode(errors="replace")}"'
        case b"w":
            return data[2:].decode(errors="replace")
        case b"d":
            return data[3:].decode(errors="replace")
    raise error("the value is a term of Erlang's that is no text", Exit.DATA)


def _cipher(
    call: Call,
    passphrase: str,
    salt: bytes,
    vector: bytes,
    default: tuple[str, str, int] = DEFAULTS[0],
) -> Any:
    name, hashing = call.text("cipher") or default[0], call.text("hash") or default[1]
    if name not in KEY_BYTES:
        raise error(f"The requested cipher is not supported: one of {', '.join(KEY_BYTES)}")
    if hashing not in HASHES:
        raise error(f"The requested hash is not supported: one of {', '.join(HASHES)}")
    iterations = call.integer("iterations") or default[2]
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        raise error("needs a package: pip install cryptography") from None
    digest = "sha1" if hashing == "sha" else hashing
    size = KEY_BYTES[name]
    key = hashlib.pbkdf2_hmac(digest, passphrase.encode(), salt, iterations, size)
    return Cipher(algorithms.AES(key), modes.CBC(vector))


def _verb(name: str, summary: str, run: Any, **more: Any) -> Verb:
    return Verb(name=name, summary=summary, run=run, contact=Contact.NONE, **more)


_CODING_ARGUMENTS: Final = (
    Argument("value", "the value"),
    Argument("passphrase", "what the key is made of"),
)
_CODING_OPTIONS: Final = (
    Option("cipher", f"default {DEFAULT_CIPHER}", Kind.TEXT),
    Option("hash", f"default {HASHES[0]}", Kind.TEXT),
    Option("iterations", f"default {DEFAULT_ITERATIONS}", Kind.INTEGER),
)

VERBS: Final = (
    _verb(
        "encode",
        "Encrypts a value as RabbitMQ's configuration has it",
        encode,
        family=Family.CONFIGURATION,
        arguments=_CODING_ARGUMENTS,
        options=_CODING_OPTIONS,
    ),
    _verb(
        "decode",
        "Decrypts a value of RabbitMQ's configuration",
        decode,
        family=Family.CONFIGURATION,
        arguments=_CODING_ARGUMENTS,
        options=_CODING_OPTIONS,
    ),
    _verb(
        "list_ciphers", "Lists ciphers for encode and decode", list_ciphers,
        family=Family.CONFIGURATION,
    ),
    _verb(
        "list_hashes", "Lists hash functions for encode and decode", list_hashes,
        family=Family.CONFIGURATION,
    ),
)  # fmt: skip
