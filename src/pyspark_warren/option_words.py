"""Words of options: which option a wrong name stands for, and which have no effect where.

Most people come from Kafka's source, so its names are known here: those that mean the same are
options (options.py), and the others are answered with what does the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from pyspark_warren.errors import InvalidOption

# What Kafka's source and sink call something that has another name here. In lower case, since that
# is how Spark passes names on.
_WORDS_OF_KAFKA: Final = {
    "kafka.bootstrap.servers": "the broker's address is option url",
    "assign": "a queue has no partitions to be assigned: name it with option subscribe",
    "kafka.group.id": "a group whose progress the broker knows is option group",
    "groupidprefix": "a group whose progress the broker knows is option group",
    "topic": "a message goes to option exchange with option routingKey",
    "kafkaconsumer.polltimeoutms": "how long nodes are asked is option failoverTimeout, in seconds",
    "fetchoffset.numretries": "how long nodes are asked is option failoverTimeout, in seconds",
    "fetchoffset.retryintervalms": "how long nodes are asked is option failoverTimeout, in seconds",
    "kafka.security.protocol": "for TLS give an https:// or amqps:// address, and option caFile",
}
_CLIENT_OF_KAFKA: Final = "kafka."

# Options that one kind of query would ignore, and what to do instead.
_ONLY_IN_BATCHES: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "limit")
_ONLY_IN_STREAMS: Final = (
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger", "maxTriggerDelay",
    "group",
)  # fmt: skip
_NO_END: Final = "has no effect in a stream, which has no end: leave it out, or use spark.read"
_NO_TRIGGER: Final = (
    "has no effect in a batch, which is read once: leave it out, or use spark.readStream"
)


def no_such_option(wrong: str, known: tuple[str, ...]) -> InvalidOption:
    """An error that says which option was probably meant."""
    lower = wrong.lower()
    hint = _WORDS_OF_KAFKA.get(lower)
    if hint is None and lower.startswith(_CLIENT_OF_KAFKA):
        hint = "there is no Kafka client here to take it; see the options of Warren's source"
    if hint is not None:
        return InvalidOption(f"option {wrong}: no such option: {hint}")
    return InvalidOption(f"option {wrong}: no such option{suggestion(wrong, known)}")


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """A question to put behind a message, or what there is."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(wrong.lower(), by_lower, n=1)
    if close:
        return f"; did you mean {by_lower[close[0]]}?"
    return f"; known: {', '.join(by_lower.values())}"


def refuse_without_effect(given: Iterable[str], *, is_stream: bool) -> None:
    """Raises InvalidOption for an option that this kind of query would ignore."""
    useless, why = (_ONLY_IN_BATCHES, _NO_END) if is_stream else (_ONLY_IN_STREAMS, _NO_TRIGGER)
    by_lower = {name.lower(): name for name in useless}
    for name in given:
        if name.lower() in by_lower:
            raise InvalidOption(f"option {by_lower[name.lower()]}: {why}")
