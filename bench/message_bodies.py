"""Bodies of 1 KB for benchmarks: noise, which nothing makes smaller, or text that repeats itself.

Noise has to be moved whole by everything. Text is like what applications publish: the same words
in each message, other numbers; Parquet files of it are a small part of what was published. What a
benchmark says depends on which one it had, so it says which.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    import numpy as np

BODY_BYTES: Final = 1_024
FILE_ROWS: Final = 50_000
DIGITS: Final = 16
Bodies = Literal["random", "compressible"]
BODIES: Final[tuple[Bodies, ...]] = ("random", "compressible")
_WORDS: Final = b'{"id":0000000000000000,"customer":"jane@example.com","status":"paid","items":['
_ITEM: Final = b'{"sku":"A-1001","quantity":2,"price":19.99},'
_DIGITS_AT: Final = _WORDS.index(b"0")


def write_bodies(directory: Path, rows: int, kind: Bodies) -> None:
    """Write Parquet files of bodies, with a number each."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    chance = np.random.default_rng(1)
    directory.mkdir()
    for start in range(0, rows, FILE_ROWS):
        count = min(FILE_ROWS, rows - start)
        ends = pa.py_buffer(np.arange(0, (count + 1) * BODY_BYTES, BODY_BYTES, dtype=np.int32))
        made = chance.bytes(count * BODY_BYTES) if kind == "random" else _texts(chance, count)
        value = pa.Array.from_buffers(pa.binary(), count, [None, ends, pa.py_buffer(made)])
        number = pa.array(np.arange(start, start + count))
        table = pa.table({"value": value, "number": number})
        pq.write_table(table, directory / f"{start:012d}.parquet", compression="none")


def _texts(chance: np.random.Generator, count: int) -> bytes:
    import numpy as np

    text = (_WORDS + _ITEM * (BODY_BYTES // len(_ITEM)))[:BODY_BYTES]
    bodies = np.tile(np.frombuffer(text, np.uint8), (count, 1))
    digits = chance.integers(ord("0"), ord("9") + 1, (count, DIGITS), np.uint8)
    bodies[:, _DIGITS_AT : _DIGITS_AT + DIGITS] = digits
    return bodies.tobytes()
