"""The compiled kernel under bytes nobody would send: it never crashes and never hoards.

A crash here is a crash of the interpreter, so that pytest itself dies: the seed to reproduce it is
the one printed last with `-s`. `WARREN_FUZZ_SECONDS` makes the hunt longer than the default, and
`WARREN_FUZZ_SEED` begins it elsewhere. To see a read beyond a buffer where it happens, build the
kernel with `-fsanitize=address` (or run this file under valgrind with `PYTHONMALLOC=malloc`).
"""

from __future__ import annotations

import os
import random
import time
import tracemalloc
from array import array
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import wire_frames
from wire_frames import ack, body, frame, header, message, publish

SECONDS = float(os.environ.get("WARREN_FUZZ_SECONDS", "4"))
FIRST_SEED = int(os.environ.get("WARREN_FUZZ_SEED", "1"))
FRAME_MAX = 4096
MESSAGE_SIZE_MAX = 20_000
READER_MEMORY_BYTES_MAX = 500_000


@pytest.fixture(scope="module")
def kernel() -> ModuleType:
    return wire_frames.kernel("_codec")


def seeds() -> Iterator[int]:
    """One after the other until the time is over."""
    deadline = time.monotonic() + SECONDS
    seed = FIRST_SEED
    while time.monotonic() < deadline:
        print("seed", seed)
        yield seed
        seed += 1


def noise(rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice([0, 1, 7, 8, 40, 300, 9000]))


def plausible(rng: random.Random) -> bytes:
    """Frames that begin well."""
    channel = rng.choice([0, 1, 1, 1, 2, rng.randrange(65536)])
    size = rng.choice([0, 1, 50, FRAME_MAX, FRAME_MAX + 1])
    properties = rng.choice([b"\x00\x00", b"\x20\x00\x00\x00\x00\x10\x02CCA", rng.randbytes(40)])
    makers: list[Callable[[], bytes]] = [
        lambda: message(rng.randbytes(size), channel, properties, rng.randrange(1, FRAME_MAX)),
        lambda: publish(channel, rng.randbytes(rng.randrange(12))),
        lambda: header(channel, rng.choice([0, size, MESSAGE_SIZE_MAX, 2**64 - 1]), properties),
        lambda: body(channel, rng.randbytes(size)),
        lambda: frame(rng.randrange(10), channel, rng.randbytes(rng.randrange(30))),
        lambda: ack(channel),
    ]
    return rng.choice(makers)()


def with_damage(rng: random.Random, data: bytes) -> bytes:
    damaged = bytearray(data)
    for _ in range(rng.choice([0, 0, 0, 1, 3]) if data else 0):
        damaged[rng.randrange(len(damaged))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, 0xCE])
    return bytes(damaged[: rng.randrange(len(damaged) + 1)] if rng.random() < 0.05 else damaged)


def torment(rng: random.Random, reader: Any) -> None:
    """Feed one reader until it has had enough, in pieces, through landings, with forgetting."""
    for _ in range(40):
        data = noise(rng) if rng.random() < 0.02 else with_damage(rng, plausible(rng))
        position = 0
        while position < len(data):
            piece = data[position : position + rng.choice([1, 3, 8, 100, 5000])]
            position += len(piece)
            landing = reader.landing()
            if landing is not None and len(piece) <= len(landing):
                landing[: len(piece)] = piece
                reader.landed(len(piece))
            else:
                # An array's memory ends with its last octet; that of bytes goes one further.
                reader.feed(array("B", piece))
        if rng.random() < 0.1:
            reader.forget_channel(rng.choice([1, 2]))
        reader.stepwise = rng.random() < 0.1


def test_the_reader_survives_any_bytes(kernel: ModuleType) -> None:
    for seed in seeds():
        rng = random.Random(seed)
        # Landings begin at 16 KiB, so some readers must take frames of that size.
        torment(rng, kernel.FrameReader(rng.choice([FRAME_MAX, 65_536]), MESSAGE_SIZE_MAX))


def test_a_property_block_survives_any_bytes(kernel: ModuleType) -> None:
    for seed in seeds():
        rng = random.Random(seed)
        for _ in range(200):
            flags = rng.choice([b"\x20\x00", b"\xff\xff", rng.randbytes(2)])
            table = b"".join(
                b"\x01k" + bytes([rng.choice(b"tbBsuIilLfdDTVSxAF")]) + rng.randbytes(5)
                for _ in range(rng.randrange(6))
            )
            length = rng.choice([len(table), len(table) + 1, 2**32 - 1])
            raw = flags + length.to_bytes(4, "big") + table + rng.randbytes(rng.randrange(4))
            block = kernel.PropertyBlock(raw[: rng.randrange(len(raw) + 1)])
            assert block.is_malformed in {True, False}


def test_the_output_survives_any_sizes(kernel: ModuleType) -> None:
    for seed in seeds():
        rng = random.Random(seed)
        output = kernel.OutputBuffer(rng.choice([4096, 16_392, 131_072]), 1000, lambda: None)
        written = 0
        for _ in range(50):
            size = rng.choice([0, 1, 100, 511, 4088, 16_383, 16_384, 262_144, 300_000])
            block = kernel.PropertyBlock(rng.randbytes(rng.choice([0, 2, 60_000])))
            content = kernel.Message(b"\x00\x01k", block, bytes(size))
            if rng.random() < 0.5:
                output.deliver(rng.randrange(65536), b"\x01c", seed, True, content)
            else:
                output.content(1, rng.randbytes(rng.randrange(500)), content)
            if rng.random() < 0.3:
                written += sum(len(piece) for piece in output.take())
        assert written + output.size == output.octets


def test_a_reader_holds_no_more_than_its_limits_allow(kernel: ModuleType) -> None:
    """One message and one frame for a channel in use, whatever was sent before."""
    held = []
    for seed in range(FIRST_SEED, FIRST_SEED + 25):
        rng = random.Random(seed)
        tracemalloc.start()
        reader = kernel.FrameReader(FRAME_MAX, MESSAGE_SIZE_MAX)
        for _ in range(300):
            reader.feed(message(rng.randbytes(rng.randrange(9000)), rng.choice([1, 2])))
            reader.feed(publish(3) + header(3, MESSAGE_SIZE_MAX) + body(3, rng.randbytes(4000)))
            reader.feed(publish(3) + frame(9, 4, rng.randbytes(FRAME_MAX)) + noise(rng)[:6])
        held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert max(held) < READER_MEMORY_BYTES_MAX


def test_a_reader_that_stopped_hoards_nothing(kernel: ModuleType) -> None:
    reader = kernel.FrameReader(FRAME_MAX, MESSAGE_SIZE_MAX)
    reader.feed(b"\xff" * 8)
    assert reader.has_stopped
    tracemalloc.start()
    for _ in range(1000):
        reader.feed(bytes(10_000))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < READER_MEMORY_BYTES_MAX


def test_what_was_read_and_written_is_given_back(kernel: ModuleType) -> None:
    """A reference too many shows as memory that grows with the number of messages."""
    data = b"".join(message(bytes(size), 1, b"\x10\x00\x02") for size in (0, 10, 5000, 30_000))
    data += ack() + frame(9, 1, bytes(100)) + publish(2) + publish(2) + header(2, 5, b"\xff")
    reader = kernel.FrameReader(wire_frames.FRAME_MAX, MESSAGE_SIZE_MAX * 2)
    output = kernel.OutputBuffer(wire_frames.FRAME_MAX, 10**9, lambda: None)

    def work(rounds: int) -> None:
        for number in range(rounds):
            cut = number % len(data)
            for event in reader.feed(data[:cut]) + reader.feed(data[cut:]):
                if isinstance(event, kernel.Message):
                    output.deliver(1, b"\x01c", 1, False, event)
                    output.content(1, b"\x00\x3c\x00\x47", event)
            output.take()

    work(300)
    tracemalloc.start()
    work(2000)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < READER_MEMORY_BYTES_MAX
