"""Python workers that are gone, and what Spark makes of it.

Spark runs our code in processes of several kinds: those that plan, one for each streaming query
that says how far its sources are, and those that run tasks. The kernel may kill any of them when
memory is short. What comes of it depends on which, and on what it was doing:

- `Python worker exited unexpectedly`, or an error of a socket, if it had something to do;
- an `EOFException` without a word, if it was the one that a query asks how far sources are;
- `Stream closed`, if it was waiting for something to do, and the process that it was forked by is
  gone as well: Spark finds that it is dead, wants to tell the one that forked it, cannot, and
  fails. It has forgotten this worker then, but others may be waiting, and each fails somebody.

Also, Spark gives a worker ten seconds to start, which cannot be changed, and on a machine with too
much to do that may not be enough.

Nothing of that has anything to do with what was asked, and all of it is over when it is tried again
a few times, in the same session. So jobs do that, as long as they get somewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""Those that Spark has no type of its own for come as they are in Java."""
TRIES_MAX: Final = 10
"""One for each worker that may be waiting, of each kind, and some more."""

_SIGNS: Final = (
    "Python worker failed to connect back",
    "Python worker exited unexpectedly",
    "java.io.EOFException",
    "java.io.IOException: Stream closed",
    "java.io.IOException: Broken pipe",
    "java.net.SocketException",
)
_CAUSES_MAX: Final = 20


def is_worker_lost(error: BaseException) -> bool:
    """Whether this came of a worker that is gone, or not there yet."""
    texts = [str(error), *_causes(error)]
    return any(sign in text for sign in _SIGNS for text in texts)


def _causes(error: BaseException) -> Iterator[str]:
    """What Java says of the error and of what led to it: more than Python's text has."""
    cause: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    for _ in range(_CAUSES_MAX):
        if cause is None:
            return
        yield str(cause.toString())
        cause = cause.getCause()
