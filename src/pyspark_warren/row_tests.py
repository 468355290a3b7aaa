"""Tests of rows: which records of fetched chunks a filter lets pass.

Each distinct route and property block is tested once, and remembered, since publishers repeat
themselves from one fetch to the next, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyspark_warren.fetched import Fetched, Numbered
from pyspark_warren.properties import plain_headers
from pyspark_warren.row_filter import RowFilter
from warren.wire.route_key import split_octets

# More answers are not remembered: then they are asked for anew.
REMEMBERED_MAX: Final = 65_536


class RowTests:
    def __init__(self, row_filter: RowFilter) -> None:
        self._filter = row_filter
        self._of_route: dict[bytes, bool] = {}
        self._of_block: dict[bytes, bool] = {}

    def wanted(self, fetched: Fetched) -> NDArray[np.bool_]:
        """True for each row that the filter lets pass."""
        wanted = np.ones(fetched.rows, dtype=np.bool_)
        if self._filter.keys:
            wanted &= _answers(fetched.routes, self._of_route, self._takes_route)
        if self._filter.headers is not None:
            wanted &= _answers(fetched.blocks, self._of_block, self._takes_block)
        if self._filter.is_of_time:
            times = [chunk.header.timestamp_ms for chunk in fetched.chunks]
            wanted &= fetched.spread(list(map(self._takes_time, times)))
        return wanted

    def _takes_route(self, route: bytes) -> bool:
        return self._filter.takes_route(*names_of(route))

    def _takes_block(self, block: bytes) -> bool:
        assert self._filter.headers is not None, "there is a test of headers"
        return self._filter.headers.holds(plain_headers(block))

    def _takes_time(self, time_ms: int) -> bool:
        since, until = self._filter.since_us, self._filter.until_us
        time_us = 1000 * time_ms
        return (since is None or time_us >= since) and (until is None or time_us < until)


def names_of(route: bytes) -> tuple[str, str]:
    """Exchange and routing key; what is not UTF-8 has marks where it is not."""
    exchange, routing_key = split_octets(route)
    return exchange.decode(errors="replace"), routing_key.decode(errors="replace")


def _answers(
    values: Numbered, known: dict[bytes, bool], test: Callable[[bytes], bool]
) -> NDArray[np.bool_]:
    distinct, numbers = values
    if len(known) + len(distinct) > REMEMBERED_MAX:
        known.clear()
    for value in distinct:
        if value not in known:
            known[value] = test(value)
    return np.array([known[value] for value in distinct], dtype=np.bool_)[numbers]
