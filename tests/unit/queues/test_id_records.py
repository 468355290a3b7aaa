"""Ids as records: what is written is read again, and of crafted bytes nothing is believed."""

from __future__ import annotations

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.model.deduplication import KEY_BYTES_MAX, Remembered, Window
from warren.queues.fate import new_fate
from warren.queues.id_pack import PACK_BYTES_MAX, IdPack
from warren.queues.id_records import MalformedIds, add_fields, ids_of, is_id, pack_of
from warren.wire.codec import Message

ONE_ID = Struct(">qHQ")
IDS = st.tuples(
    st.binary(max_size=KEY_BYTES_MAX),
    st.integers(0, 2**63 - 1),
    st.integers(0, 256),
    st.integers(0, 2**64 - 1),
)


def shown(message: Message) -> list[tuple[bytes, int, int, int]]:
    return [(entry.key, entry.expires_at_ms, *place) for entry, place in ids_of(message)]


@given(st.lists(IDS, max_size=200), st.booleans())
def test_a_pack_is_read_as_it_was_written(
    ids: list[tuple[bytes, int, int, int]], is_persistent: bool
) -> None:
    fields = bytearray()
    for key, expires_at_ms, level, number in ids:
        add_fields(fields, expires_at_ms, level, number, len(key))
    message = pack_of([key for key, *_ in ids], fields, is_persistent)
    assert shown(message) == ids
    assert is_id(message)
    assert message.properties.persistent is is_persistent


@given(IDS)
def test_a_record_of_a_former_version_has_one_id(an_id: tuple[bytes, int, int, int]) -> None:
    key, *numbers = an_id
    route = pack_of([], bytearray(), True).route_key
    message = Message(route, pack_of([], bytearray(), True).properties, ONE_ID.pack(*numbers) + key)
    assert shown(message) == [an_id]


@given(st.binary(max_size=120), st.booleans())
def test_other_bytes_are_refused_or_have_ids_of_bounded_size(body: bytes, is_pack: bool) -> None:
    pack = pack_of([], bytearray(), True)
    crafted = b"\xff" * 8 + body if is_pack else body
    try:
        found = ids_of(Message(pack.route_key, pack.properties, crafted))
    except MalformedIds:
        return
    assert all(len(entry.key) <= KEY_BYTES_MAX for entry, _ in found)
    assert sum(len(entry.key) for entry, _ in found) <= len(crafted)


@pytest.mark.parametrize("embedded_below", [0, 1_000, 4_096, 1 << 62])
@pytest.mark.parametrize("key_bytes", [1, KEY_BYTES_MAX])
def test_a_pack_is_as_long_as_the_journal_embeds(embedded_below: int, key_bytes: int) -> None:
    window, pack = Window(None, None), IdPack(1, True, embedded_below)
    count = 0
    while not pack.is_full:
        entry = (
            window.add(count.to_bytes(2, "big").rjust(key_bytes, b".")[-key_bytes:], 0)
            if key_bytes > 1
            else window.add(bytes([count]), 0)
        )
        pack.add(new_fate({}, window, entry, None))
        count += 1
    message = pack.message()
    longest = min(PACK_BYTES_MAX, embedded_below)
    assert count == 1 or len(message.body) + len(message.properties.raw) < longest
    assert len(ids_of(message)) == count


def test_what_was_forgotten_is_left_out() -> None:
    window, pack = Window(None, None), IdPack(1, True, 4_096)
    entries: list[Remembered] = [window.add(key, 0) for key in (b"a", b"b")]
    for entry in entries:
        pack.add(new_fate({}, window, entry, None))
    window.forget(entries[0])
    assert [key for key, *_ in shown(pack.message())] == [b"b"]
