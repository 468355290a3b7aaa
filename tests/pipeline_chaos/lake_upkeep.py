"""Compacts and vacuums a lake over and over, beside the job that fills it, which does so, too.

By the code that the job has for it, in a process that may be killed at any moment. The job's own
upkeep may be faster at times: a conflict is tried again, anything else ends this process.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Final

from deltalake.exceptions import CommitFailedError

from pipeline_chaos.side_process import stopped_by_signal, tell
from pyspark_warren.lake import MESSAGES
from pyspark_warren.lake.delta import DeltaLakeTable
from pyspark_warren.lake.storage import Storage
from pyspark_warren.lake.upkeep import clean_log, compact, vacuum

PAUSE_S: Final = 1.5
FILES_MIN: Final = 4


def main() -> None:
    storage = Storage.of(sys.argv[1])
    stopping = stopped_by_signal()
    did: Counter[str] = Counter()
    while not stopping.wait(PAUSE_S):
        table = DeltaLakeTable.open(storage, MESSAGES)
        if table is None:
            continue
        try:
            did["files put together"] += compact(table, FILES_MIN)
            did["files deleted"] += vacuum(table, is_full=True)
            clean_log(table)
        except CommitFailedError:
            did["conflicts"] += 1
    tell(did)


if __name__ == "__main__":
    main()
