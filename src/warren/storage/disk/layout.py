"""Where the files of a virtual host are, and what they are called.

    <data>/msg_stores/vhosts/<V>/          V, Q: a hash, because names may hold anything
        .vhost                             the name itself
        checkpoint                         see checkpoint.py
        journal/N.jif                      see journal.py
        queues/<Q>/.queue_name             for people
        queues/<Q>/K.idx                   see segment.py
        msg_store_persistent/N.rdq         see message_store.py
        msg_store_transient/N.rdq

Names and hashes are those of RabbitMQ, which also puts "628WB79CIFDYO9LJI6DKMI09L" on "/"; what is
in the files is not.
"""

from __future__ import annotations

from hashlib import md5
from pathlib import Path
from typing import Final

JOURNAL_SUFFIX: Final = ".jif"
SEGMENT_SUFFIX: Final = ".idx"

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def vhost_directory(data_directory: Path, vhost: str) -> Path:
    return data_directory / "msg_stores" / "vhosts" / _hashed(encode_name(vhost))


def encode_name(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def decode_name(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def numbered(names: list[str], suffix: str) -> list[int]:
    """The numbers of the files called `<number><suffix>`, in order; others are not ours."""
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def _hashed(name: bytes) -> str:
    """A 128-bit hash in base 36."""
    number = int.from_bytes(md5(name, usedforsecurity=False).digest(), "big")
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


class IndexLayout:
    """The index's own files in the directory of one virtual host."""

    def __init__(self, directory: Path, vhost: str) -> None:
        self.directory = directory
        self.vhost = vhost
        self.vhost_file = directory / ".vhost"
        self.checkpoint_file = directory / "checkpoint"
        self.journal_directory = directory / "journal"
        self.queues_directory = directory / "queues"

    def journal_file(self, number: int) -> Path:
        return self.journal_directory / f"{number}{JOURNAL_SUFFIX}"

    def queue_directory(self, queue: str) -> Path:
        hashed = _hashed(b"queue" + encode_name(self.vhost) + encode_name(queue))
        return self.queues_directory / hashed

    def segment_file(self, queue: str, number: int) -> Path:
        return self.queue_directory(queue) / f"{number}{SEGMENT_SUFFIX}"
