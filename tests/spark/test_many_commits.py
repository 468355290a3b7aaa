"""Many small commits to a Delta table: no batch is forgotten with the log that is cleaned up.

`scripts/bench commits` does the same with 20 000 of 5 000 rows, and says how long they take.
"""

from __future__ import annotations

from pathlib import Path

from bench.commits import COLUMNS, SLOWER_MAX, Load, commit_many, lost_in
from bench.report import Table


def test_transactions_outlive_the_log_and_commits_do_not_get_slower(tmp_path: Path) -> None:
    """A retention of a second has files and versions deleted while commits go on."""
    load = Load(commits=500, rows=200, retention_s=1)
    run = commit_many(tmp_path, load, Table("commits", COLUMNS), lambda text: None)
    assert lost_in(run, load) == []
    assert run.slower(run.cpu_ms) < SLOWER_MAX
