"""Answers of etcd, as etcd 3.4 has sent them; the whole exchange is in tests/contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.metadata.etcd_messages import (
    DeleteAnswer,
    LeaseAnswer,
    Pair,
    PutAnswer,
    RangeAnswer,
    TransactionAnswer,
    WatchAnswer,
    WatchEvent,
    read_lease,
    read_range,
    read_token,
    read_transaction,
    read_watch,
)
from warren.metadata.protobuf_wire import BadMessage, integer, message, octets

IDS = "08eebe9eb1d0e4959eb60110bbbf9db7ffc880dee201"
HEADER = f"0a1a{IDS}18022002"
LEASE = 6898285289627901446
ONE, TWO = Pair(b"a", b"1", 2, LEASE), Pair(b"b", b"2", 2, 0)

RECORDED: dict[str, tuple[Callable[[bytes], Any], str, Any]] = {
    "lease granted": (
        read_lease,
        f"0a1a{IDS}180120021086bccbbcc1bde8dd5f18d804",
        LeaseAnswer(LEASE, 600),
    ),
    "transaction done": (
        read_transaction,
        f"{HEADER}10011a0612040a0218021a0612040a021802",
        TransactionAnswer(2, True, [PutAnswer(2), PutAnswer(2)]),
    ),
    "transaction refused": (
        read_transaction,
        f"{HEADER}1a1d0a1b0a02180212130a01611002180220013086bccbbcc1bde8dd5f2001",
        TransactionAnswer(2, False, [RangeAnswer(2, [ONE._replace(value=b"")], False, 1)]),
    ),
    "transaction in a transaction": (
        read_transaction,
        f"0a1a{IDS}1803200210011a10220e0a0010011a081a060a02180310011a061a040a021803",
        TransactionAnswer(
            3, True, [TransactionAnswer(0, True, [DeleteAnswer(3, 1)]), DeleteAnswer(3, 0)]
        ),
    ),
    "range with a limit": (
        read_range,
        f"{HEADER}12160a01611002180220012a01313086bccbbcc1bde8dd5f18012002",
        RangeAnswer(2, [ONE], True, 2),
    ),
    "watch created": (
        read_watch,
        f"0a1a{IDS}180320021801",
        WatchAnswer(False, 0, "", []),
    ),
    "watch events": (
        read_watch,
        (
            f"0a1a{IDS}180320025a1812160a01611002180220012a01313086bccbbcc1bde8dd5f"
            "5a0e120c0a01621002180220012a01325a09080112050a01611803"
        ),
        WatchAnswer(
            False,
            0,
            "",
            [
                WatchEvent(False, ONE),
                WatchEvent(False, TWO),
                WatchEvent(True, Pair(b"a", b"", 3, 0)),
            ],
        ),
    ),
    "watch of what was compacted away": (
        read_watch,
        f"0a18{IDS}200220012803",
        WatchAnswer(True, 3, "", []),
    ),
}


@pytest.mark.parametrize(("read", "recorded", "meaning"), RECORDED.values(), ids=RECORDED)
def test_recorded_answers(read: Callable[[bytes], Any], recorded: str, meaning: Any) -> None:
    assert read(bytes.fromhex(recorded)) == meaning


@pytest.mark.parametrize(("read", "recorded", "meaning"), RECORDED.values(), ids=RECORDED)
def test_fields_that_a_newer_etcd_adds_are_skipped(
    read: Callable[[bytes], Any], recorded: str, meaning: Any
) -> None:
    added = integer(99, 7) + octets(100, b"more")
    assert read(added + bytes.fromhex(recorded) + added) == meaning


def test_the_reason_of_a_cancelled_watch() -> None:
    answer = read_watch(integer(4, 1) + octets(6, b"no leader"))
    assert (answer.is_cancelled, answer.cancel_reason) == (True, "no leader")


def test_a_token() -> None:
    assert read_token(message(1, integer(3, 9)) + octets(2, b"abc.7")) == "abc.7"


def test_an_answer_to_an_unknown_operation_is_refused() -> None:
    with pytest.raises(BadMessage):
        read_transaction(message(3, message(9, b"")))


@given(st.sampled_from([read for read, _, _ in RECORDED.values()]), st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(read: Callable[[bytes], Any], encoded: bytes) -> None:
    try:
        answer = read(encoded)
    except BadMessage:
        return
    assert isinstance(answer, tuple)
