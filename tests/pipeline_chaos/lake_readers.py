"""Reads a lake over and over by one engine after the other; no count may be wrong, ever.

The table only grows, and each offset is in it once: so no count is below the one before, whichever
engine made it, and as many offsets are different as there are rows. Compaction and vacuum go on
meanwhile. An error of a reader is wrong, too.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from typing import Final

from deltalake import DeltaTable

from pipeline_chaos.lake_counts import ENGINES
from pipeline_chaos.side_process import stopped_by_signal, tell
from pyspark_warren.lake import MESSAGES

PAUSE_S: Final = 0.7


def main() -> None:
    lake = sys.argv[1]
    stopping = stopped_by_signal()
    while not DeltaTable.is_deltatable(f"{lake}/{MESSAGES}"):
        if stopping.wait(PAUSE_S):
            break
    reads: Counter[str] = Counter()
    most = 0
    for name, count in itertools.cycle(ENGINES.items()):
        if stopping.wait(PAUSE_S):
            break
        found = count(lake)
        assert found.rows == found.offsets, f"{name} reads rows twice: {found}"
        assert found.rows >= most, f"{name} reads {found.rows} rows, and there were {most} before"
        most = found.rows
        reads[name] += 1
    tell(dict(reads))


if __name__ == "__main__":
    main()
