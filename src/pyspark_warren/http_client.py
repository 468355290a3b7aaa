"""Asks a broker over HTTP: what a queue holds, where to cut it, chunks of it, cursors of groups.

One client has one connection at a time, kept alive, to the endpoint that answered last. When that
one breaks off or says that it cannot now, the next is asked, round after round, until patience
is over: a node that is restarted, or a queue that gets another master, is a pause and no failure.
Every request here can be repeated without harm. What is wrong with the request itself (no such
queue, no permission) no other node would judge otherwise, and is raised at once.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.client import BadStatusLine, HTTPException, HTTPResponse
from ssl import SSLCertVerificationError, SSLError
from typing import Any, Final, NoReturn, Self, TypeVar
from urllib.parse import quote, urlencode

from pyspark_warren.chunk_pieces import BrokenOff, whole_chunks
from pyspark_warren.endpoints import DEFAULT_PORTS, PATIENCE_S, Endpoint
from pyspark_warren.errors import (
    BrokerUnavailable,
    DataLost,
    InvalidOption,
    MalformedAnswer,
    NotAStream,
    NotAuthorised,
    QueueMissing,
    WarrenError,
)
from warren.client.http import ApiConnection, HttpAddress, HttpRequest

# No request is longer under way than this.
TIMEOUT_S: Final = 60.0
PAUSE_S: Final = 0.1
PAUSE_MAX_S: Final = 2.0
# So much is asked for at a time; a chunk that is larger comes whole all the same.
ANSWER_BYTES: Final = 64 * 1_048_576
# No more places to cut are given at a time.
CUTS_MAX: Final = 1_000
_NEXT_OFFSET: Final = "x-warren-next-offset"
_BUSY: Final = frozenset({408, 429, 500, 502, 503, 504})

log = logging.getLogger(__name__)

T = TypeVar("T")
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets of a stream: from the first one that is there to that of the next record."""

    first: int
    end: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A beginning of a chunk; `bytes` counts from the beginning of the stream."""

    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Unread:
    """What a reader has before it: records, bytes of chunks, and when the first was taken."""

    records: int
    bytes: int
    oldest_ms: int | None


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """Messages with sequence numbers of [start, end); the first has this place."""

    place: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Selected:
    """Whole chunks of a selection, and the offset from which to go on; None from old brokers."""

    data: bytes
    next_offset: int | None


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    name: str
    """Of the queue or exchange it is about, for errors."""
    body: object = None


class QueueClient:
    """What one process asks about the queues of a virtual host."""

    def __init__(
        self, endpoints: tuple[Endpoint, ...], vhost: str, patience_s: float = PATIENCE_S
    ) -> None:
        assert endpoints, "somebody must be asked"
        self._endpoints = endpoints
        self._vhost = vhost
        self._patience_s = patience_s
        self._turn = 0
        self._told: set[tuple[int, str]] = set()
        self._connection: ApiConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, object]:
        """Readers are pickled with their client; a connection stays where it is."""
        return {**self.__dict__, "_connection": None}

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # Streams

    def extent(self, queue: str) -> Extent:
        """Raises NotAStream for any other queue, QueueMissing if there is none."""
        shown = self._ask_json(self._stream(queue), queue)
        return Extent(shown["first_offset"], shown["end_offset"], shown["bytes"])

    def offset_at(self, queue: str, moment_ms: int) -> int:
        """The first offset taken at that moment or later; the end if there is none."""
        shown = self._ask_json(self._stream(queue, timestamp=moment_ms), queue)
        return int(shown["offset"])

    def unread(self, queue: str, offset: int) -> Unread | None:
        """What there is from an offset on; None from brokers that do not say."""
        shown = self._ask_json(self._stream(queue, unread=offset), queue).get("unread")
        if shown is None:
            return None
        return Unread(shown["records"], shown["bytes"], shown["oldest_timestamp"])

    def stream_names(self) -> list[str]:
        """The names of all streams of the virtual host."""
        path = f"/api/warren/stream-names/{quote(self._vhost, safe='')}"
        return [str(name) for name in self._ask_json(path, "streams")["names"]]

    def partition_names(self, super_stream: str) -> list[str]:
        """The streams that a super stream has now, in its order; QueueMissing if there is none."""
        path = f"/api/warren/super-streams/{self._named(super_stream)}"
        return [str(each["name"]) for each in self._ask_json(path, super_stream)["partitions"]]

    def cuts(self, queue: str, span: tuple[int, int], limit: int) -> list[Cut]:
        """Offsets within [start, end) at which a chunk begins, evenly chosen."""
        query = {"from": span[0], "to": span[1], "limit": limit}
        shown = self._ask_json(self._stream(queue, "/cuts", **query), queue)
        return [Cut(cut["offset"], cut["bytes"]) for cut in shown["cuts"]]

    def records(self, queue: str, span: tuple[int, int]) -> Iterator[memoryview]:
        """Whole chunks with the first records of [start, end), piece by piece.

        They may end earlier, between two chunks: ask on behind what came. Raises BrokenOff when an
        answer does, and DataLost if the first are gone.
        """
        query = {"from": span[0], "to": span[1], "max_bytes": ANSWER_BYTES}
        request = _Request("GET", self._stream(queue, "/records", **query), queue)
        response = self._answered(request, lambda response: response)
        try:
            yield from whole_chunks(response.readinto)
        except (OSError, HTTPException, BrokenOff) as error:
            problem = f"an answer broke off: {type(error).__name__} {error}"
        else:
            if not response.length:
                return
            problem = f"an answer broke off: {response.length} bytes short"
        self._leave(problem)
        raise BrokenOff(problem)

    def selected(self, queue: str, span: tuple[int, int], selection: Sequence[Pair]) -> Selected:
        """The first chunks of [start, end) that may have a match, without parts not wanted.

        Raises DataLost if the first records are gone.
        """
        # A broker that knows no selections sends everything, and is held to this.
        bound = ("max_bytes", ANSWER_BYTES)
        query = urlencode([("from", span[0]), ("to", span[1]), bound, *selection])
        request = _Request("GET", f"{self._stream(queue, '/records')}?{query}", queue)

        def take(response: HTTPResponse) -> Selected:
            said = response.headers.get(_NEXT_OFFSET)
            return Selected(response.read(), None if said is None else int(said))

        return self._answered(request, take)

    # Other queues

    def snapshot_parts(
        self, queue: str, limit: int | None, wanted: tuple[str, int]
    ) -> list[SnapshotPart]:
        """Parts of a snapshot: `("parts", 4)`, or `("part_bytes", 1000)`. Empty if it has none."""
        query = dict([wanted, *([] if limit is None else [("limit", limit)])])
        path = f"/api/warren/queues/{self._named(queue)}/snapshot/cuts?{urlencode(query)}"
        shown = self._ask_json(path, queue)["parts"]
        return [SnapshotPart(part["place"], part["from"], part["to"]) for part in shown]

    def snapshot(
        self, queue: str, limit: int | None = None, part: SnapshotPart | None = None
    ) -> Iterator[memoryview]:
        """The ready messages, as whole chunks, piece by piece; offsets are places in the queue.

        A snapshot cannot be gone on with elsewhere, so what breaks off in the middle is raised.
        """
        query = {} if limit is None else {"limit": limit}
        if part is not None:
            query = {"from": part.start, "to": part.end, "place": part.place}
        path = f"/api/warren/queues/{self._named(queue)}/snapshot"
        path = f"{path}?{urlencode(query)}" if query else path
        response = self._answered(_Request("GET", path, queue), lambda response: response)
        try:
            yield from whole_chunks(response.readinto)
        except (OSError, HTTPException, BrokenOff) as error:
            self.close()
            raise BrokerUnavailable(f"the snapshot of {queue!r} broke off: {error}") from error

    def declare_stream(self, queue: str, exchange: str, routing_key: str) -> None:
        """A stream that gets what the exchange routes by this key. Does nothing if it is there."""
        stream = {"durable": True, "arguments": {"x-queue-type": "stream"}}
        self._ask(_Request("PUT", f"/api/queues/{self._named(queue)}", queue, stream))
        vhost = quote(self._vhost, safe="")
        path = f"/api/bindings/{vhost}/e/{quote(exchange, safe='')}/q/{quote(queue, safe='')}"
        binding = {"routing_key": routing_key, "arguments": {}}
        self._ask(_Request("POST", path, exchange, binding))

    # Groups

    def set_cursor(self, queue: str, group: str, offset: int) -> None:
        """Everything before `offset` is done with. One that is ahead already stays."""
        path = self._stream(queue, f"/groups/{quote(group, safe='')}")
        self._ask(_Request("PUT", path, queue, {"offset": offset}))

    # Paths

    def _named(self, queue: str) -> str:
        return f"{quote(self._vhost, safe='')}/{quote(queue, safe='')}"

    def _stream(self, queue: str, below: str = "", **query: int) -> str:
        path = f"/api/warren/streams/{self._named(queue)}{below}"
        return f"{path}?{urlencode(query)}" if query else path

    # Requests

    def _ask_json(self, path: str, name: str) -> dict[str, Any]:
        answer = self._ask(_Request("GET", path, name))
        try:
            shown = json.loads(answer)
        except ValueError:
            raise MalformedAnswer(f"{self._endpoint} does not answer like a broker") from None
        assert isinstance(shown, dict), "what is asked for here is shown as an object"
        return shown

    def _ask(self, request: _Request) -> bytes:
        # Less than was announced raises IncompleteRead: nothing is taken for whole that is not.
        return self._answered(request, HTTPResponse.read)

    def _answered(self, request: _Request, take: Callable[[HTTPResponse], T]) -> T:
        """What `take` makes of the answer. Goes on to other endpoints while this can help."""
        deadline = time.monotonic() + self._patience_s
        pause_s = PAUSE_S
        while True:
            try:
                response = self._send(request)
                if response.status < 300:
                    self._told.clear()
                    return take(response)
                answer = response.read()
            except SSLCertVerificationError as error:
                raise self._endpoint.untrusted(error) from error
            except (OSError, HTTPException) as error:
                _refuse_other_protocol(self._endpoint, error)
                problem = _problem_of(self._endpoint, error)
            else:
                if response.status not in _BUSY:
                    self._refused(response.status, answer, request.name)
                problem = f"{response.status} {answer[:200].decode(errors='replace')}"
            if time.monotonic() + pause_s > deadline:
                self.close()
                raise BrokerUnavailable(self._no_answer(problem))
            self._leave(problem)
            if self._turn % len(self._endpoints) == 0:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def _leave(self, problem: str) -> None:
        """For the next endpoint."""
        self.close()
        told = (self._turn % len(self._endpoints), problem)
        if told not in self._told:  # the same once is enough, for as long as it lasts
            self._told.add(told)
            log.warning("%s: %s; trying again", self._endpoint, problem)
        self._turn += 1

    @property
    def _endpoint(self) -> Endpoint:
        return self._endpoints[self._turn % len(self._endpoints)]

    def _no_answer(self, problem: str) -> str:
        asked = ", ".join(map(str, self._endpoints))
        return f"no answer from {asked} in {self._patience_s:g} s; the last: {problem}"

    def _send(self, request: _Request) -> HTTPResponse:
        if self._connection is None:
            self._connection = ApiConnection(_address_of(self._endpoint))
        asked = HttpRequest(request.method, request.path, request.body)
        return self._connection.request(asked, TIMEOUT_S)

    def _refused(self, status: int, answer: bytes, name: str) -> NoReturn:
        reason, first_offset = _reason_of(answer)
        where = f"{name!r} in virtual host {self._vhost!r}"
        match status:
            case 401 | 403:
                raise NotAuthorised(
                    f"{self._endpoint} refuses {self._endpoint.who} access to {where}: "
                    f"{reason or 'wrong user or password'}"
                )
            case 404:
                raise QueueMissing(f"there is no {where} at {self._endpoint}")
            case 410:
                raise DataLost(f"{where}: {reason}", first_offset)
            case 400 if "is not a stream" in reason:
                raise NotAStream(reason)
        raise WarrenError(f"{self._endpoint} refuses {where}: {status} {reason}")


def _problem_of(endpoint: Endpoint, error: Exception) -> str:
    """Return what to tell of a connection that failed.

    A server that wants a certificate says so in an alert, which comes too late if the connection
    has ended by then: so any failure of TLS without a certificate may be that.
    """
    problem = f"{type(error).__name__}: {error}"
    if isinstance(error, SSLError) and endpoint.identity.cert_file is None:
        problem += " (if the broker asks for a client certificate, give option certFile)"
    return problem


def _refuse_other_protocol(endpoint: Endpoint, error: Exception) -> None:
    """Raises InvalidOption where something else answers, and always will."""
    if isinstance(error, BadStatusLine) and str(error).startswith("AMQP"):
        raise InvalidOption(
            f"option url: {endpoint} speaks AMQP and not HTTP; give the port of the management "
            f"API, such as {endpoint.scheme}://{endpoint.host}:{DEFAULT_PORTS[endpoint.scheme]}"
        ) from error
    if isinstance(error, SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        raise InvalidOption(
            f"option url: {endpoint} does not speak TLS; give the port of the management API with "
            "TLS, or an address with http://"
        ) from error


def _address_of(endpoint: Endpoint) -> HttpAddress:
    return HttpAddress(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        password=endpoint.password,
        token=endpoint.identity.bearer() or "",
        tls=endpoint.tls_context() if endpoint.is_secure else None,
        agent="pyspark_warren",
    )


def _reason_of(answer: bytes) -> tuple[str, int]:
    """What the broker says, and the offset that is now the first, if that is the reason."""
    try:
        reason = json.loads(answer)["reason"]
    except (ValueError, LookupError, TypeError):
        return answer[:200].decode(errors="replace"), 0
    if isinstance(reason, dict):
        return str(reason.get("text", reason)), int(reason.get("first_offset", 0))
    return str(reason), 0
