"""Topology records to bytes and back, with every type letter of their arguments."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from field_strategies import tables
from warren.metadata.codec import (
    LAYOUT,
    TopologyRecord,
    UnreadableRecord,
    decode_binding,
    decode_exchange,
    decode_queue,
    decode_record,
    encode_record,
)
from warren.model.records import (
    BindingRecord,
    Destination,
    DestinationKind,
    ExchangeRecord,
    QueueRecord,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
EXCHANGES = st.builds(
    ExchangeRecord,
    NAMES,
    NAMES,
    NAMES,
    durable=st.booleans(),
    auto_delete=st.booleans(),
    internal=st.booleans(),
    arguments=tables(),
    created_by=NAMES,
)
QUEUES = st.builds(
    QueueRecord,
    NAMES,
    NAMES,
    durable=st.booleans(),
    auto_delete=st.booleans(),
    owner=st.none() | NAMES,
    arguments=tables(),
    created_by=NAMES,
)
BINDINGS = st.builds(
    BindingRecord,
    NAMES,
    NAMES,
    st.builds(Destination, st.sampled_from(DestinationKind), NAMES),
    NAMES,
    tables(),
)


@given(EXCHANGES | QUEUES | BINDINGS)
def test_a_record_comes_back_as_it_went(record: TopologyRecord) -> None:
    assert decode_record(encode_record(record)) == record


def test_each_decoder_takes_its_own_kind_only() -> None:
    exchange = ExchangeRecord("/", "x", "topic")
    queue = QueueRecord("/", "q", owner="connection 1")
    binding = BindingRecord("/", "x", Destination(DestinationKind.QUEUE, "q"), "k")
    assert decode_exchange(encode_record(exchange)) == exchange
    assert decode_queue(encode_record(queue)) == queue
    assert decode_binding(encode_record(binding)) == binding
    for decode, stranger in (
        (decode_exchange, queue),
        (decode_queue, binding),
        (decode_binding, exchange),
    ):
        with pytest.raises(UnreadableRecord, match=r"not an? "):
            decode(encode_record(stranger))


def changed(**fields: object) -> bytes:
    stored = json.loads(encode_record(QueueRecord("/", "q")))
    return json.dumps(stored | fields).encode()


def test_a_newer_layout_is_refused() -> None:
    with pytest.raises(UnreadableRecord, match=f"layout {LAYOUT + 1} is newer"):
        decode_record(changed(layout=LAYOUT + 1))


def test_a_field_we_do_not_know_is_ignored() -> None:
    assert decode_record(changed(colour="red")) == QueueRecord("/", "q")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"\xff",
        changed(kind="stream"),
        changed(durable="yes"),
        changed(arguments="!"),
        changed(arguments="AAAA"),
        changed(arguments="AAAAAAA="),
    ],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        decode_record(data)
