"""Super streams: keys are hashed as RabbitMQ's stream clients hash them, to one partition each."""

from __future__ import annotations

import pytest

from topology_samples import binding, exchange, to_exchange
from warren.model.errors import SoftError
from warren.routing.exchange import Exchange, make_exchange, validate_binding
from warren.routing.murmur import SEED, murmur3_32
from warren.routing.super_stream import is_super_stream, partition_order

# Published vectors of MurmurHash3_x86_32; those with the seed of the clients are from mmh3.
KNOWN = [
    (b"", 0, 0),
    (b"", 1, 0x514E28B7),
    (b"", 0xFFFFFFFF, 0x81F16F39),
    (b"\xff\xff\xff\xff", 0, 0x76293B50),
    (b"\x21\x43\x65\x87", 0, 0xF55B516B),
    (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
    (b"\x21\x43\x65", 0, 0x7E4A8634),
    (b"\x21\x43", 0, 0xA0F7B07A),
    (b"\x21", 0, 0x72661CF4),
    (b"\x00\x00\x00\x00", 0, 0x2362F9DE),
    (b"\x00\x00\x00", 0, 0x85F0B427),
    (b"\x00\x00", 0, 0x30F4C306),
    (b"\x00", 0, 0x514E28B7),
    (b"aaaa", 0x9747B28C, 0x5A97808A),
    (b"aaa", 0x9747B28C, 0x283E0130),
    (b"aa", 0x9747B28C, 0x5D211726),
    (b"a", 0x9747B28C, 0x7FA09EA6),
    (b"abcd", 0x9747B28C, 0xF0478627),
    (b"abc", 0x9747B28C, 0xC84A62DD),
    (b"ab", 0x9747B28C, 0x74875592),
    (b"Hello, world!", 0x9747B28C, 0x24884CBA),
    ("ππππππππ".encode(), 0x9747B28C, 0xD58063C1),
    (b"a" * 256, 0x9747B28C, 0x37405BDC),
    (b"", SEED, 0xC6757D56),
    (b"0", SEED, 0xAE9784FD),
    (b"orders", SEED, 0xCFF2FC98),
    (b"customer-1", SEED, 0x1FFEF098),
    (b"customer-12345", SEED, 0x197BDCC4),
    ("zürich".encode(), SEED, 0xA0B11FA4),
]


@pytest.mark.parametrize(("data", "seed", "expected"), KNOWN)
def test_the_hash_is_murmur3(data: bytes, seed: int, expected: int) -> None:
    assert murmur3_32(data, seed) == expected


def of_partitions(count: int) -> Exchange:
    made = make_exchange(exchange("s", "x-super-stream"))
    for number in reversed(range(count)):
        made.bind(binding("s", f"s-{number}", str(number), {"x-stream-partition-order": number}))
    return made


def partition(made: Exchange, key: str) -> str:
    (destination,) = made.route(key, None)
    return destination.name


@pytest.mark.parametrize("count", [1, 2, 3, 7, 12])
def test_a_key_goes_to_the_partition_that_its_hash_names(count: int) -> None:
    made = of_partitions(count)
    for number in range(200):
        key = f"customer-{number}"
        assert partition(made, key) == f"s-{murmur3_32(key.encode(), SEED) % count}"


def test_keys_are_spread_over_all_partitions() -> None:
    made = of_partitions(4)
    found = [partition(made, f"key {number}") for number in range(4_000)]
    assert all(850 < found.count(f"s-{number}") < 1_150 for number in range(4))


def test_without_a_partition_nothing_is_routed() -> None:
    made = of_partitions(0)
    assert list(made.route("k", None)) == []
    assert made.route_kept_as("k") == ""


def test_partitions_that_are_left_share_the_keys_of_one_that_is_gone() -> None:
    made = of_partitions(3)
    made.unbind(binding("s", "s-1", "1", {"x-stream-partition-order": 1}))
    assert {partition(made, f"k{n}") for n in range(50)} == {"s-0", "s-2"}


@pytest.mark.parametrize("key", ["", "a", "1.5", "1_000", "٣"])
def test_a_partition_is_bound_by_a_number(key: str) -> None:
    with pytest.raises(SoftError, match="The binding key must be an integer") as refused:
        validate_binding("x-super-stream", binding("s", "q", key))
    assert refused.value.code == 406
    validate_binding("x-super-stream", binding("s", "q", "12"))


def test_routes_of_many_keys_are_kept_by_partition() -> None:
    made = of_partitions(3)
    assert {made.route_kept_as(f"k{n}") for n in range(100)} == {"0", "1", "2"}
    made.bind(binding("s", to_exchange("t"), "3"))
    assert made.route_kept_as("k1") == "k1", "the next exchange looks at the key"


@pytest.mark.parametrize(
    ("type_", "arguments", "expected"),
    [
        ("x-super-stream", {}, True),
        ("direct", {"x-super-stream": True}, True),
        ("direct", {"x-super-stream": "true"}, False),
        ("direct", {}, False),
    ],
)
def test_an_exchange_is_known_for_a_super_stream(
    type_: str, arguments: dict[str, object], expected: bool
) -> None:
    assert is_super_stream(exchange("s", type_, arguments)) is expected


def test_a_partition_without_an_order_is_the_last() -> None:
    orders = [{"x-stream-partition-order": 7}, {}, {"x-stream-partition-order": "1"}]
    found = [partition_order(binding("s", "q", "k", order)) for order in orders]
    assert found == [7, 2**63, 2**63]
