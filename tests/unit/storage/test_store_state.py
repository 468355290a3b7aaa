"""The message store's part of a checkpoint: damage behind a right checksum is refused in words."""

from __future__ import annotations

import pytest

from warren.storage.bodies.forwarding import Forwarding, Moves
from warren.storage.bodies.store_files import StoreFile
from warren.storage.bodies.store_state import UnreadableState, decode_state, encode_state
from warren.storage.disk.checksum import crc32c


def sealed(data: bytes) -> bytes:
    return data + crc32c(data).to_bytes(4, "little")


def state() -> bytes:
    file = StoreFile(3, salt=7)
    file.deaths.extend([1, 2, 3])
    forwarding = Forwarding()
    forwarding.moves[2] = Moves()
    forwarding.moves[2].append(40, (3, 80), references=1)
    return encode_state(4, 3, [file], forwarding)


def test_a_state_is_read_as_it_was_written() -> None:
    found = decode_state(state())
    assert list(found.files[3].deaths) == [1, 2, 3]
    assert list(found.forwarding.moves) == [2]


def test_a_state_that_is_cut_anywhere_is_refused() -> None:
    whole = state()[:-4]
    for length in range(len(whole)):
        with pytest.raises(UnreadableState, match="message store's part of the checkpoint"):
            decode_state(sealed(whole[:length]))


def test_a_state_with_something_behind_it_is_refused() -> None:
    with pytest.raises(UnreadableState, match="wrong lengths"):
        decode_state(sealed(state()[:-4] + b"more"))
