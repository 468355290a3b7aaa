"""Which errors of Spark's mean that a Python worker is gone."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from pyspark_warren.jobs.lost_workers import TRIES_MAX, is_worker_lost
from pyspark_warren.jobs.queries import patiently

LOST = "Python worker exited unexpectedly (crashed)"


@pytest.mark.parametrize(
    ("text", "is_lost"),
    [
        (f"Lost task 0.0 in stage 5.0: {LOST}", True),
        ("Python worker failed to connect back", True),
        ("An error occurred while calling o1.load.\n: java.io.IOException: Stream closed", True),
        ("pyspark_warren.errors.BrokerUnavailable: last: Connection reset by peer", False),
        ("there is no 'orders'", False),
    ],
)
def test_errors_of_lost_workers_are_known(text: str, is_lost: bool) -> None:
    assert is_worker_lost(PySparkException(text)) is is_lost


class Cause:
    """As Java's exceptions are seen from Python."""

    def __init__(self, text: str, cause: Cause | None = None) -> None:
        self.toString = lambda: text
        self.getCause = lambda: cause


def test_what_led_to_an_error_is_looked_at() -> None:
    """A query whose worker ended has no text of its own."""
    error = PySparkException("[STREAM_FAILED] Query terminated with exception:  SQLSTATE: XXKST")
    assert not is_worker_lost(error)
    error._origin = Cause("StreamingQueryException", Cause("java.io.EOFException"))  # type: ignore[attr-defined]
    assert is_worker_lost(error)


def test_what_lost_its_worker_is_done_again_and_given_up_in_the_end() -> None:
    tries = 0

    def action() -> int:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise PySparkException(LOST)
        return tries

    def in_vain() -> int:
        nonlocal tries
        tries += 1
        raise PySparkException(LOST)

    assert patiently(action) == 3
    tries = 0
    with pytest.raises(PySparkException):
        patiently(in_vain)
    assert tries == TRIES_MAX
