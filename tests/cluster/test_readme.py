"""The README, from its first command to its last, as somebody new would go through it.

What it says about Spark is tried where a Spark is at hand: tests/spark/test_guides.py.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

import pytest

from documents import ROOT, Reader, blocks_of

SPARK = "Five minutes to a queue in Spark"
VERDICT = re.compile(r"read back: ([\d,]+) messages; confirmed ([\d,]+), lost (\d+)")


@pytest.mark.timeout(1200)
def test_every_command_of_the_readme_works_in_its_order(tmp_path: Path) -> None:
    blocks = [block for block in blocks_of(ROOT / "README.md") if block.section != SPARK]
    reader = Reader(tmp_path)
    try:
        for section, parts in groupby(blocks, key=lambda block: block.section):
            if "mirrored queue" in section:
                reader.close()
            for block in parts:
                reader.do(block)
    finally:
        reader.close()
    assert reader.names["bodies"][-1] == b"999"
    demo = next(told for told in reader.outputs if "kill -9" in told)
    check_demo(demo)


def check_demo(told: str) -> None:
    """What `warren demo` says it has seen."""
    assert re.search(r"http://127\.0\.0\.1:\d+/queues/%2F/demo", told), told
    assert re.search(r"kill -9 \d+: n1@localhost, the leader", told), told
    assert re.search(r"n[23]@localhost leads, and confirms; [\d,]+ ms without a confirm", told), (
        told
    )
    assert "it is up and synchronised after" in told, told
    verdict = VERDICT.search(told)
    assert verdict is not None, told
    assert verdict[1] == verdict[2] != "0"
    assert verdict[3] == "0"
