"""Partition handling: which value of the setting is noted in the log."""

from __future__ import annotations

import io

from warren.config.partition_handling import explain_strategy
from warren.model.logs import configure_logs


def test_a_strategy_that_means_another_one_here_is_noted() -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    explain_strategy("pause_minority")
    assert stream.getvalue() == ""
    explain_strategy("autoheal")
    assert "cluster_partition_handling = autoheal means the same as pause_min" in stream.getvalue()
