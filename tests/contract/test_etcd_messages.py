"""etcd's messages against a real etcd: it reads what we write, and we read what it writes.

etcd answers every call in JSON, too, which another encoder makes: so each answer is read twice, by
us from the wire format and by Python from JSON, and both must say the same.
"""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.request
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata_engines import shared_etcd
from warren.metadata.etcd_address import parse_etcd_address
from warren.metadata.etcd_client import EtcdClient, NoAnswer
from warren.metadata.etcd_messages import (
    LEASE_GRANT,
    LEASE_KEEP_ALIVE,
    LEASE_REVOKE,
    PUT,
    RANGE,
    TRANSACT,
    WATCH,
    DeleteAnswer,
    Method,
    Pair,
    PutAnswer,
    RangeAnswer,
    TransactionAnswer,
    WatchEvent,
    delete_operation,
    delete_request,
    is_at_revision,
    is_empty,
    lease_grant_request,
    lease_request,
    put_operation,
    put_request,
    range_operation,
    range_request,
    transaction_operation,
    txn_request,
    watch_request,
)
from warren.metadata.protobuf_wire import BadMessage

SPACE, SPACE_END = b"messages/", b"messages0"
KEYS = st.binary(max_size=40).map(SPACE.__add__)
# Lengths around those where a varint gets longer.
VALUES = st.one_of(
    st.binary(max_size=40), st.sampled_from([126, 127, 128, 129, 16_383, 16_384]).map(bytes)
)
CONTENTS = st.dictionaries(KEYS, st.tuples(VALUES, st.booleans()), min_size=1, max_size=8)


def client() -> EtcdClient:
    return EtcdClient(parse_etcd_address(shared_etcd().url))


def in_json(path: str, **fields: bytes | int | bool) -> Any:
    """Ask etcd's JSON gateway, which encodes bytes as base64 and 64-bit integers as text."""
    body = {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for name, value in fields.items()
    }
    url = f"http://{shared_etcd().members[0].endpoint}/v3/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def pair_in_json(found: dict[str, str]) -> Pair:
    return Pair(
        base64.b64decode(found["key"]),
        base64.b64decode(found.get("value", "")),
        int(found.get("mod_revision", "0")),
        int(found.get("lease", "0")),
    )


def cleared() -> None:
    in_json("kv/deleterange", key=SPACE, range_end=SPACE_END)


def puts(contents: dict[bytes, tuple[bytes, bool]], lease_id: int) -> list[bytes]:
    return [
        put_operation(put_request(key, value, lease_id if is_leased else 0))
        for key, (value, is_leased) in contents.items()
    ]


@settings(max_examples=25, deadline=None)
@given(CONTENTS, st.integers(0, 3))
def test_a_range_reads_as_its_json_does(
    contents: dict[bytes, tuple[bytes, bool]], limit: int
) -> None:
    async def stored() -> tuple[int, RangeAnswer]:
        asked = client()
        lease_id = (await asked.call(LEASE_GRANT, lease_grant_request(600))).lease_id
        done = await asked.call(TRANSACT, txn_request(success=puts(contents, lease_id)))
        assert done.is_successful
        assert done.parts == [PutAnswer(done.revision)] * len(contents)
        found = await asked.call(RANGE, range_request(SPACE, SPACE_END, limit=limit))
        await asked.close()
        return lease_id, found

    cleared()
    lease_id, found = asyncio.run(stored())
    same = in_json("kv/range", key=SPACE, range_end=SPACE_END, limit=limit)
    assert found == RangeAnswer(
        int(same["header"]["revision"]),
        [pair_in_json(pair) for pair in same["kvs"]],
        same.get("more", False),
        int(same["count"]),
    )
    for pair in found.pairs:
        value, is_leased = contents[pair.key]
        assert (pair.value, pair.lease_id) == (value, lease_id if is_leased else 0)


@settings(max_examples=25, deadline=None)
@given(CONTENTS)
def test_a_watch_tells_what_transactions_did(contents: dict[bytes, tuple[bytes, bool]]) -> None:
    async def watched() -> tuple[int, int, Sequence[WatchEvent]]:
        asked = client()
        lease_id = (await asked.call(LEASE_GRANT, lease_grant_request(600))).lease_id
        written = await asked.call(TRANSACT, txn_request(success=puts(contents, lease_id)))
        deletions = [delete_operation(delete_request(key)) for key in contents]
        deleted = await asked.call(TRANSACT, txn_request(success=deletions))
        assert deleted.parts == [DeleteAnswer(deleted.revision, 1)] * len(contents)
        events: list[WatchEvent] = []
        request = watch_request(SPACE, SPACE_END, written.revision)
        async for answer in asked.stream(WATCH, [request], 60):
            events += answer.events
            if len(events) == 2 * len(contents):
                break
        await asked.close()
        return lease_id, written.revision, events

    cleared()
    lease_id, revision, events = asyncio.run(watched())
    assert events == [
        WatchEvent(False, Pair(key, value, revision, lease_id if is_leased else 0))
        for key, (value, is_leased) in contents.items()
    ] + [WatchEvent(True, Pair(key, b"", revision + 1, 0)) for key in contents]


async def test_checks_hold_or_fail_and_operations_nest() -> None:
    cleared()
    asked = client()
    key, other = SPACE + b"a", SPACE + b"b"
    put = [put_operation(put_request(key, b"1"))]
    read = [range_operation(range_request(key, is_keys_only=True))]

    request = txn_request([is_empty(SPACE, SPACE_END), is_at_revision(key, 0)], put, read)
    first = await asked.call(TRANSACT, request)
    assert first.is_successful
    again = await asked.call(TRANSACT, request)
    assert not again.is_successful
    (seen,) = again.parts
    assert isinstance(seen, RangeAnswer)
    assert seen.pairs == [Pair(key, b"", first.revision, 0)], "keys only"

    inner = txn_request([is_at_revision(key, first.revision)], [put_operation(put_request(other))])
    refused = txn_request([is_at_revision(key, first.revision + 1)], put)
    nested = await asked.call(
        TRANSACT,
        txn_request(success=[transaction_operation(inner), transaction_operation(refused)]),
    )
    done, undone = nested.parts
    assert isinstance(done, TransactionAnswer)
    assert isinstance(undone, TransactionAnswer)
    assert (done.is_successful, len(done.parts)) == (True, 1)
    assert (undone.is_successful, undone.parts) == (False, [])
    await asked.close()


async def test_an_answer_that_is_no_message_is_no_answer() -> None:
    def read(encoded: bytes) -> None:
        raise BadMessage(f"{len(encoded)} bytes of something else")

    asked = client()
    request = range_request(SPACE)
    with pytest.raises(NoAnswer, match="bytes of something else"):
        await asked.call(Method(RANGE.path, read), request)
    assert (await asked.call(RANGE, request)).key_count == 0, "over another connection"
    await asked.close()


async def test_a_lease_is_granted_kept_and_revoked() -> None:
    asked = client()
    granted = await asked.call(LEASE_GRANT, lease_grant_request(600))
    assert granted.ttl_s == 600
    same = in_json("lease/timetolive", ID=granted.lease_id)
    assert (int(same["ID"]), int(same["grantedTTL"])) == granted
    request = lease_request(granted.lease_id)

    async def kept() -> int:
        async for answer in asked.stream(LEASE_KEEP_ALIVE, [request], 60):
            assert answer.lease_id == granted.lease_id
            return answer.ttl_s
        raise AssertionError("a stream that ends raises")

    assert await kept() == 600
    await asked.call(PUT, put_request(SPACE + b"leased", b"", granted.lease_id))
    await asked.call(LEASE_REVOKE, request)
    assert await kept() == 0
    assert (await asked.call(RANGE, range_request(SPACE + b"leased"))).pairs == []
    await asked.close()
