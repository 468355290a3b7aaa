"""Options of the source and of the sink: their names, what they may be, what they are if not given.

Spark passes options as text and does not look at them, so a misspelt one would be ignored in
silence and the wrong thing read. Here every name is known, in any case of letters, or refused with
the name that was probably meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark_warren.endpoints import PATIENCE_S, Endpoint, Identity, parse_endpoints
from pyspark_warren.errors import InvalidOption
from pyspark_warren.option_words import no_such_option
from pyspark_warren.positions import (
    EARLIEST,
    LATEST,
    OFFSET_MAX,
    Position,
    Positions,
    parse_moments,
    parse_positions,
)
from pyspark_warren.row_filter import RowFilter, parse_headers, parse_keys
from pyspark_warren.schema import PROPERTY_NAMES, column_names, parse_columns

SOURCE_OPTIONS: Final = (
    "url", "user", "password", "vhost", "queue", "subscribe", "subscribePattern", "superStream",
    "exchange", "routingKey", "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "endingOffsets", "endingTimestamp",
    "endingOffsetsByTimestamp", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "maxBytesPerTrigger", "minPartitions", "maxRecordsPerPartition", "limit", "columns",
    "filterRoutingKey", "filterHeaders", "failOnDataLoss", "includeHeaders", "group", "path",
    "caFile", "certFile", "keyFile", "token", "tokenFile", "failoverTimeout",
)  # fmt: skip
SINK_OPTIONS: Final = (
    "url", "user", "password", "vhost", "exchange", "superStream", "routingKey", "partitionKey",
    "idColumns",
    "messagesPerSecond", "caFile", "certFile", "keyFile", "token", "tokenFile", "failoverTimeout",
)  # fmt: skip
# Given by Spark itself, whatever the format.
SPARK_OPTIONS: Final = frozenset({"checkpointlocation", "querytimeout"})
PATIENCE_S_MAX: Final = 86_400
TRIGGER_DELAY_S: Final = 900.0
TRIGGER_DELAY_S_MAX: Final = 86_400
PARTITIONS_MAX: Final = 10_000
QUEUES_MAX: Final = 1_000
SHORTSTR_BYTES_MAX: Final = 255
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_YES: Final = frozenset({"true", "yes", "1"})
_NO: Final = frozenset({"false", "no", "0"})


@dataclass(frozen=True, slots=True)
class SourceOptions:
    endpoints: tuple[Endpoint, ...]
    """None if `path` alone is read."""
    vhost: str
    queues: tuple[str, ...]
    """Empty if `pattern` says which."""
    exchange: str | None
    """To be bound to the one queue, which is declared as a stream if it is not there."""
    routing_key: str
    pattern: str | None = None
    """Streams whose whole names match are read, those that appear later, too."""
    super_stream: str | None = None
    """Its partitions are read, those that are added later, too."""
    starting: Positions = field(default_factory=lambda: Positions("startingOffsets"))
    """By default, the beginning for a batch and the end for a stream."""
    ending: Positions = field(default_factory=lambda: Positions("endingOffsets"))
    offsets_per_trigger_min: int | None = None
    offsets_per_trigger_max: int | None = None
    trigger_delay_s: float = TRIGGER_DELAY_S
    """How long a batch waits until there are `offsets_per_trigger_min`."""
    bytes_per_trigger_max: int | None = None
    partitions_min: int | None = None
    """None: as many as there is to read."""
    partition_records_max: int | None = None
    limit: int | None = None
    """Number of records that a batch has at most."""
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = field(default_factory=lambda: column_names(include_headers=True))
    property_names: tuple[str, ...] = PROPERTY_NAMES
    """Fields of the column `properties`."""
    row_filter: RowFilter = field(default_factory=RowFilter)
    group: str | None = None
    path: str | None = None
    """Where files of streams are, which are read instead of asking a broker for records."""
    patience_s: float = PATIENCE_S
    """How long to ask nodes that do not answer, before a task fails."""

    @property
    def is_open(self) -> bool:
        """True if streams that appear while a query runs are read, too."""
        return self.pattern is not None or self.super_stream is not None

    def batch_start(self, queue: str) -> Position:
        return self.starting.of(queue, EARLIEST)

    def stream_start(self, queue: str) -> Position:
        return self.starting.of(queue, LATEST)

    def batch_end(self, queue: str) -> Position:
        return self.ending.of(queue, LATEST)


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
    super_stream: str | None = None
    """The exchange of every row, whatever its column says."""
    partition_key: str | None = None
    """The column that is every row's routing key."""
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
    pattern = options.pattern("subscribePattern")
    if "superStream" in options and not is_asked:
        raise InvalidOption("option superStream: needs option url, of the broker that knows it")
    row_filter = options.row_filter()
    limit = options.number("limit", OFFSET_MAX)
    if limit is not None and not row_filter.is_all:
        raise InvalidOption("option limit: counts records before a filter; use limit() behind it")
    return SourceOptions(
        endpoints=options.endpoints(is_http=True) if is_asked else (),
        vhost=options.vhost() if is_asked else "/",
        queues=_queues(options, exchange, routing_key, may_be_any=not is_asked),
        pattern=pattern,
        super_stream=options.text("superStream"),
        exchange=exchange,
        routing_key=routing_key,
        starting=options.positions("starting"),
        ending=options.positions("ending"),
        offsets_per_trigger_min=options.number("minOffsetsPerTrigger", OFFSET_MAX),
        offsets_per_trigger_max=options.number("maxOffsetsPerTrigger", OFFSET_MAX),
        trigger_delay_s=_trigger_delay(options),
        bytes_per_trigger_max=options.number("maxBytesPerTrigger", OFFSET_MAX),
        partitions_min=options.number("minPartitions", PARTITIONS_MAX),
        partition_records_max=options.number("maxRecordsPerPartition", OFFSET_MAX),
        limit=limit,
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        columns=_columns(options),
        row_filter=row_filter,
        group=options.text("group"),
        path=path,
        patience_s=options.number("failoverTimeout", PATIENCE_S_MAX) or PATIENCE_S,
    )


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Raises InvalidOption, which names the option and, if it can, the right one."""
    options = _Options(given, SINK_OPTIONS, "sink")
    super_stream = options.text("superStream")
    for one, other in (("superStream", "exchange"), ("partitionKey", "routingKey")):
        if one in options and other in options:
            raise InvalidOption(f"option {other}: give it or option {one}, not both")
    return SinkOptions(
        endpoints=options.endpoints(is_http=False),
        vhost=options.vhost(),
        exchange=super_stream or options.short("exchange", ""),
        super_stream=super_stream,
        partition_key=options.text("partitionKey"),
        routing_key=options.short("routingKey", "") if "routingkey" in options else None,
        id_columns=tuple(options.texts("idColumns")),
        messages_per_second=options.number("messagesPerSecond", OFFSET_MAX),
        patience_s=options.number("failoverTimeout", PATIENCE_S_MAX) or PATIENCE_S,
    )


def _queues(
    options: _Options, exchange: str | None, routing_key: str, *, may_be_any: bool
) -> tuple[str, ...]:
    """None stands for all that there are below `path`, or for those that a name stands for."""
    every = ("queue", "subscribe", "subscribePattern", "superStream")
    names = [name for name in every if name in options]
    if len(names) > 1:
        raise InvalidOption(f"option {names[1]}: give it or option {names[0]}, not both")
    queues = tuple(dict.fromkeys((*options.texts("queue"), *options.texts("subscribe"))))
    if exchange is not None:
        if len(queues) > 1 or {"subscribePattern", "superStream"} & {*names}:
            raise InvalidOption("option queue: name one queue, to be bound to option exchange")
        queues = queues or (f"spark.{exchange}.{routing_key}",)
    elif {"subscribePattern", "superStream"} & {*names}:
        return ()
    elif not (0 if may_be_any else 1) <= len(queues) <= QUEUES_MAX:
        raise InvalidOption(
            f"option queue: name 1 to {QUEUES_MAX} queues, or give option exchange to have a "
            "stream bound to it"
        )
    if queues:
        for side in ("starting", "ending"):
            options.positions(side).require_named(queues)
    return queues


def _trigger_delay(options: _Options) -> float:
    if "maxTriggerDelay" not in options:
        return TRIGGER_DELAY_S
    if "minOffsetsPerTrigger" not in options:
        raise InvalidOption(
            "option maxTriggerDelay: has no effect without option minOffsetsPerTrigger, for which "
            "a batch waits"
        )
    return options.seconds("maxTriggerDelay", TRIGGER_DELAY_S_MAX)


def _columns(options: _Options) -> tuple[str, ...]:
    text = options.text("columns")
    if text is None:
        return column_names(include_headers=options.flag("includeHeaders", default=True))
    if "includeHeaders" in options:
        raise InvalidOption("option includeHeaders: has no effect beside option columns")
    return parse_columns(text)


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
                raise no_such_option(name, known)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

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

    def seconds(self, name: str, largest: int) -> float:
        """A number with a unit, as Kafka's source has it: `90s`, `15m`, `500 ms`."""
        text = (self.text(name) or "").strip().lower()
        found = re.fullmatch(r"(\d+)\s*(ms|s|min|m|h|d)", text)
        seconds = int(found[1]) * _SECONDS[found[2]] if found else -1
        if not 0 <= seconds <= largest:
            raise InvalidOption(
                f"option {name}: {text!r} is no time of up to {largest} s such as 90s or 15m"
            )
        return seconds

    def pattern(self, name: str) -> str | None:
        text = self.text(name)
        try:
            re.compile(text or "")
        except re.error as error:
            raise InvalidOption(f"option {name}: {text!r} is no pattern: {error}") from None
        return text

    def positions(self, side: str) -> Positions:
        """Where to begin, or to end, by whichever option says so."""
        offsets, moment, moments = f"{side}Offsets", f"{side}Timestamp", f"{side}OffsetsByTimestamp"
        given = [name for name in (offsets, moment, moments) if name in self]
        if len(given) > 1:
            raise InvalidOption(f"option {given[1]}: give it or option {given[0]}, not both")
        strategy = self._strategy() if side == "starting" else "latest"
        if not given:
            return Positions(offsets)
        text = self.text(given[0]) or ""
        if given[0] == offsets:
            return parse_positions(offsets, text)
        return parse_moments(given[0], text, must_exist=strategy == "error")

    def _strategy(self) -> str:
        """What a moment stands for after which no record came."""
        name = "startingOffsetsByTimestampStrategy"
        text = self.text(name)
        if text is None:
            return "error"
        if text.lower() not in {"error", "latest"}:
            raise InvalidOption(f"option {name}: {text!r} is neither error nor latest")
        if "startingTimestamp" not in self and "startingOffsetsByTimestamp" not in self:
            raise InvalidOption(f"option {name}: has no effect without option startingTimestamp")
        return text.lower()

    def row_filter(self) -> RowFilter:
        keys, headers = self.text("filterRoutingKey"), self.text("filterHeaders")
        return RowFilter(
            keys=() if keys is None else (parse_keys("filterRoutingKey", keys),),
            headers=None if headers is None else parse_headers("filterHeaders", headers),
        )

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
