"""Options of the source and of the sink: their names, what they may be, what they are if not given.

Spark passes options as text and does not look at them, so a misspelt one would be ignored in
silence and the wrong thing read. Here every name is known, in any case of letters, or refused with
the name that was probably meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from pyspark_warren.endpoints import PATIENCE_S, Endpoint, Identity, parse_endpoints
from pyspark_warren.errors import InvalidOption
from pyspark_warren.positions import EARLIEST, LATEST, OFFSET_MAX, Position, parse_position

SOURCE_OPTIONS: Final = (
    "url", "user", "password", "vhost", "queue", "exchange", "routingKey", "startingOffsets",
    "endingOffsets", "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minPartitions",
    "failOnDataLoss", "includeHeaders", "group", "path", "caFile", "certFile", "keyFile", "token",
    "tokenFile", "failoverTimeout",
)  # fmt: skip
SINK_OPTIONS: Final = (
    "url", "user", "password", "vhost", "exchange", "routingKey", "idColumns",
    "messagesPerSecond", "caFile", "certFile", "keyFile", "token", "tokenFile", "failoverTimeout",
)  # fmt: skip
# Given by Spark itself, whatever the format.
SPARK_OPTIONS: Final = frozenset({"checkpointlocation", "querytimeout"})
PATIENCE_S_MAX: Final = 86_400
PARTITIONS_MAX: Final = 10_000
QUEUES_MAX: Final = 1_000
SHORTSTR_BYTES_MAX: Final = 255
_YES: Final = frozenset({"true", "yes", "1"})
_NO: Final = frozenset({"false", "no", "0"})


@dataclass(frozen=True, slots=True)
class SourceOptions:
    endpoints: tuple[Endpoint, ...]
    """None if `path` alone is read."""
    vhost: str
    queues: tuple[str, ...]
    exchange: str | None
    """To be bound to the one queue, which is declared as a stream if it is not there."""
    routing_key: str
    starting: Position | None
    """None: as usual, which is the beginning for a batch and the end for a stream."""
    ending: Position
    offsets_per_trigger_max: int | None
    bytes_per_trigger_max: int | None
    partitions_min: int | None
    """None: as many as there is to read."""
    fail_on_data_loss: bool
    include_headers: bool
    group: str | None
    path: str | None = None
    """Where files of streams are, which are read instead of asking a broker for records."""
    patience_s: float = PATIENCE_S
    """How long to ask nodes that do not answer, before a task fails."""

    @property
    def batch_starting(self) -> Position:
        return EARLIEST if self.starting is None else self.starting

    @property
    def stream_starting(self) -> Position:
        return LATEST if self.starting is None else self.starting


@dataclass(frozen=True, slots=True)
class SinkOptions:
    endpoints: tuple[Endpoint, ...]
    vhost: str
    exchange: str
    """For rows without one of their own."""
    routing_key: str | None
    id_columns: tuple[str, ...]
    messages_per_second: int | None
    """Of each task."""
    patience_s: float = PATIENCE_S


def parse_source_options(given: Mapping[str, str]) -> SourceOptions:
    """Raises InvalidOption, which names the option and, if it can, the right one."""
    options = _Options(given, SOURCE_OPTIONS, "source")
    path = options.text("path")
    is_asked = path is None or "url" in options
    exchange = options.text("exchange")
    routing_key = options.short("routingKey", "#" if exchange else "")
    if exchange is None and "routingkey" in options:
        raise InvalidOption("option routingKey: needs option exchange, to which a stream is bound")
    if exchange is not None and not is_asked:
        raise InvalidOption("option exchange: needs option url, of the broker that has it")
    return SourceOptions(
        endpoints=options.endpoints(is_http=True) if is_asked else (),
        vhost=options.vhost() if is_asked else "/",
        queues=_queues(options, exchange, routing_key, may_be_any=not is_asked),
        exchange=exchange,
        routing_key=routing_key,
        starting=options.position("startingOffsets"),
        ending=options.position("endingOffsets") or LATEST,
        offsets_per_trigger_max=options.number("maxOffsetsPerTrigger", OFFSET_MAX),
        bytes_per_trigger_max=options.number("maxBytesPerTrigger", OFFSET_MAX),
        partitions_min=options.number("minPartitions", PARTITIONS_MAX),
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        include_headers=options.flag("includeHeaders", default=True),
        group=options.text("group"),
        path=path,
        patience_s=options.number("failoverTimeout", PATIENCE_S_MAX) or PATIENCE_S,
    )


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Raises InvalidOption, which names the option and, if it can, the right one."""
    options = _Options(given, SINK_OPTIONS, "sink")
    return SinkOptions(
        endpoints=options.endpoints(is_http=False),
        vhost=options.vhost(),
        exchange=options.short("exchange", ""),
        routing_key=options.short("routingKey", "") if "routingkey" in options else None,
        id_columns=tuple(options.texts("idColumns")),
        messages_per_second=options.number("messagesPerSecond", OFFSET_MAX),
        patience_s=options.number("failoverTimeout", PATIENCE_S_MAX) or PATIENCE_S,
    )


def suggestion(wrong: str, known: tuple[str, ...]) -> str:
    """A question to put behind a message, or nothing."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(wrong.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]}?" if close else f"; known: {', '.join(known)}"


def _queues(
    options: _Options, exchange: str | None, routing_key: str, *, may_be_any: bool
) -> tuple[str, ...]:
    """None stands for all that there are below `path`."""
    queues = tuple(dict.fromkeys(options.texts("queue")))
    if exchange is not None:
        if len(queues) > 1:
            raise InvalidOption("option queue: name one queue, to be bound to option exchange")
        return queues or (f"spark.{exchange}.{routing_key}",)
    if not (0 if may_be_any else 1) <= len(queues) <= QUEUES_MAX:
        raise InvalidOption(
            f"option queue: name 1 to {QUEUES_MAX} queues, or give option exchange to have a "
            "stream bound to it"
        )
    return queues


class _Options:
    """Options as Spark passes them: text, under names in any case of letters."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...], side: str) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        allowed = {name.lower() for name in known} | SPARK_OPTIONS
        for name in given:
            if name.lower() not in allowed:
                other = SINK_OPTIONS if side == "source" else SOURCE_OPTIONS
                if name.lower() in {option.lower() for option in other}:
                    raise InvalidOption(f"option {name}: not an option of Warren's {side}")
                raise InvalidOption(f"option {name}: no such option{suggestion(name, known)}")

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str) -> str | None:
        value = self._given.get(name.lower())
        if value is not None and not value.strip():
            raise InvalidOption(f"option {name}: is empty")
        return value

    def texts(self, name: str) -> list[str]:
        return [part.strip() for part in (self.text(name) or "").split(",") if part.strip()]

    def short(self, name: str, default: str) -> str:
        """Empty is a name, too: that of the default exchange, or a routing key."""
        value = self._given.get(name.lower(), default)
        if len(value.encode()) > SHORTSTR_BYTES_MAX:
            raise InvalidOption(f"option {name}: more than {SHORTSTR_BYTES_MAX} bytes")
        return value

    def number(self, name: str, largest: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= largest:
            raise InvalidOption(f"option {name}: {text!r} is no number from 1 to {largest}")
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        text = (self.text(name) or str(default)).strip().lower()
        if text not in _YES | _NO:
            raise InvalidOption(f"option {name}: {text!r} is neither true nor false")
        return text in _YES

    def position(self, name: str) -> Position | None:
        text = self.text(name)
        return None if text is None else parse_position(name, text)

    def endpoints(self, *, is_http: bool) -> tuple[Endpoint, ...]:
        text = self.text("url")
        example = "http://host:15672" if is_http else "amqp://host:5672"
        if text is None:
            raise InvalidOption(f"option url: is missing; give the broker's, such as {example}")
        every = self._every_endpoint(text)
        chosen = tuple(endpoint for endpoint in every if endpoint.is_http == is_http)
        if not chosen:
            what = "the source reads over HTTP" if is_http else "the sink publishes over AMQP"
            raise InvalidOption(f"option url: {what}; add an address such as {example}")
        return chosen

    def _every_endpoint(self, text: str) -> tuple[Endpoint, ...]:
        every = parse_endpoints(text, self.text("user"), self.text("password"))
        identity = self._identity()
        if not any(endpoint.is_secure for endpoint in every):
            for name in ("caFile", "certFile"):
                if self.text(name) is not None:
                    raise InvalidOption(
                        f"option {name}: no address of option url is https:// or amqps://"
                    )
        return tuple(replace(endpoint, identity=identity) for endpoint in every)

    def _identity(self) -> Identity:
        if self.text("keyFile") is not None and self.text("certFile") is None:
            raise InvalidOption("option keyFile: needs option certFile, whose key it is")
        if self.text("token") is not None and self.text("tokenFile") is not None:
            raise InvalidOption("option tokenFile: give it or option token")
        return Identity(
            ca_file=self.text("caFile"),
            cert_file=self.text("certFile"),
            key_file=self.text("keyFile"),
            token=self.text("token"),
            token_file=self.text("tokenFile"),
        )

    def vhost(self) -> str:
        """As named by its option, or else by the addresses, which must agree."""
        if (named := self.text("vhost")) is not None:
            return named
        every = self._every_endpoint(self.text("url") or "")
        vhosts = {endpoint.vhost for endpoint in every if endpoint.vhost is not None}
        if len(vhosts) > 1:
            raise InvalidOption("option url: the addresses name different virtual hosts")
        return vhosts.pop() if vhosts else "/"
