"""/api/warren/streams/V/Q: a stream for those who read it in bulk.

    .                what there is: first and end offset, segments; ?timestamp=MS: from where on;
                     ?unread=OFFSET: what a reader that is there has before it
    ./cuts           offsets at which it can be cut: ?from=&to=&limit=
    ./records        chunks with the records of [from, to): ?from=&to=&max_bytes=; or parts of
                     them, or only those that may match (management/selections.py)

Records come as they are on disk (streams/chunk_format.py), whole chunks of them, so that neither
side does anything for a single record. A range that begins before the first offset is refused with
410 and the offset that is now the first: what is gone is never passed over in silence.

A selection is made while it is read, so its answer is short, and the header `x-warren-next-offset`
says from where to go on.

A range that ends where all copies of a stream have got to is the same in each of them, for good, so
a node that has one in sync answers with that, and spares the master the work.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Final, TypeVar

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from warren.management.call import Call
from warren.management.caller import VHOST_USERS
from warren.management.cluster.masters import master_node_of, stream_copy_of
from warren.management.declaring import readable_queue, require_readable
from warren.management.errors import Refusal, bad_request
from warren.management.held_range import HeldRange
from warren.management.json_types import JsonObject
from warren.management.resource import Resource
from warren.management.routes.queues import find_queue, queue_exists
from warren.management.selections import selection_of
from warren.queues.queue import Queue
from warren.storage.disk.workers import Workers
from warren.streams.chunk_format import VERSION
from warren.streams.log import StreamLog
from warren.streams.queue import StreamQueue
from warren.streams.ranges import CUTS_MAX, Span, cuts_of, unread_of
from warren.streams.segments import Segment
from warren.streams.selecting import DamagedChunk, Selection, select

CHUNKS_TYPE: Final = "application/vnd.warren.chunks"
SERVED_BY: Final = "x-warren-node"
NEXT_OFFSET: Final = "x-warren-next-offset"
# So much is read and sent at a time.
PIECE_BYTES: Final = 1_048_576
# So often a range is looked for anew if retention removes a part of it meanwhile.
HOLDING_TRIES_MAX: Final = 3
_DIGITS_MAX: Final = 18

T = TypeVar("T")


def stream_of(call: Call) -> StreamQueue:
    """The stream that is asked about; the caller may read it."""
    queue = readable_queue(call, call.parts["queue"])
    if not isinstance(queue, StreamQueue):
        raise bad_request(
            f"{queue.record} is not a stream: declare one with x-queue-type=stream and bind it to "
            "the same exchange, or read a snapshot"
        )
    if not queue.log.is_settled:  # what was shown once would seem to be gone
        raise Refusal(503, "unavailable", "the stream has just got another master; ask again")
    return queue


def master_of_stream(call: Call) -> str:
    """The node that answers, whatever is done."""
    queue = find_queue(call)
    return call.node.config.name if queue is None else master_node_of(queue, call.node)


async def _show(call: Call) -> JsonObject:
    queue = stream_of(call)
    log = queue.log
    shown = {
        "name": queue.record.name,
        "vhost": queue.record.vhost,
        "node": call.node.config.name,
        "format": VERSION,
        "first_offset": log.first_offset,
        "end_offset": log.end_offset,
        "bytes": log.backing.ready_bytes,
        "segments": [_show_segment(segment) for segment in log.segments],
    }
    if call.caller.is_monitor:
        shown["directory"] = str(log.files.directory)
    if "timestamp" in call.query:
        moment_ms = number_of(call, "timestamp", 0)
        find = partial(log.reader.find_time, log.safe_segments(), moment_ms)
        found = await _in_thread(queue.workers, find)
        shown["offset"] = log.end_offset if found is None else found
    if "unread" in call.query:
        offset = number_of(call, "unread", 0)
        look = partial(unread_of, log.reader, log.safe_segments(), offset)
        unread = await _in_thread(queue.workers, look)
        shown["unread"] = {
            "records": max(0, log.end_offset - max(offset, log.first_offset)),
            "bytes": unread.bytes,
            "oldest_timestamp": unread.oldest_ms,
        }
    return shown


def _show_segment(segment: Segment) -> JsonObject:
    return {
        "first_offset": segment.base,
        "end_offset": segment.end,
        "bytes": segment.size,
        "chunks": segment.chunks,
        "first_timestamp": segment.first_ms if segment.chunks else None,
        "last_timestamp": segment.last_ms if segment.chunks else None,
    }


async def _cuts(call: Call) -> JsonObject:
    queue = stream_of(call)
    span = _span(call, queue.log)
    limit = min(number_of(call, "limit", CUTS_MAX), CUTS_MAX)
    find = partial(cuts_of, queue.log.reader, queue.log.safe_segments(), span, limit)
    cuts = await _in_thread(queue.workers, find)
    return {
        "first_offset": queue.log.first_offset,
        "end_offset": queue.log.end_offset,
        "bytes": queue.log.backing.ready_bytes,
        "cuts": [
            {"offset": cut.offset, "timestamp": cut.timestamp_ms, "bytes": cut.bytes}
            for cut in cuts
        ],
    }


def _copy_for(call: Call) -> StreamLog | None:
    """A copy of this node that has all that is asked for; None if it takes the stream itself."""
    queue = find_queue(call)
    if queue is None or isinstance(queue, Queue):
        return None
    if "from" not in call.query or "to" not in call.query:
        return None
    mirror = stream_copy_of(queue, call.node)
    if mirror is None:
        return None
    start, end = number_of(call, "from", 0), number_of(call, "to", 0)
    log = mirror.log
    is_there = log.first_offset <= start <= end <= min(mirror.committed, log.end_offset)
    return log if is_there else None


def _master_of_records(call: Call) -> str:
    return master_of_stream(call) if _copy_for(call) is None else call.node.config.name


async def _records(call: Call) -> Response:
    log = _copy_for(call)
    if log is None:
        log = stream_of(call).log
    else:
        require_readable(call, call.parts["queue"])
    selection = selection_of(call)
    if selection is not None:
        return await _selected(call, log, selection)
    held = HeldRange(log.reader)
    try:
        await _hold(call, log, held)
    except BaseException:
        await log.workers.run_in_thread(held.let_go)
        raise
    response = RecordsResponse(log.workers, held)
    response.headers[SERVED_BY] = call.node.config.name
    return response


async def _selected(call: Call, log: StreamLog, selection: Selection) -> Response:
    """Raises 410 if what is asked for is removed just now, and 422 if it cannot be read."""
    for _ in range(HOLDING_TRIES_MAX):
        span = _span(call, log)
        look = partial(select, log.reader, log.safe_segments(), span, selection)
        try:
            found = await log.workers.run_in_thread(look)
        except FileNotFoundError:
            continue
        except DamagedChunk as error:
            raise Refusal(422, "damaged", str(error)) from None
        headers = {
            SERVED_BY: call.node.config.name,
            NEXT_OFFSET: str(found.next_offset),
        }
        return Response(found.data, headers=headers, media_type=CHUNKS_TYPE)
    raise _being_cut()


async def _hold(call: Call, log: StreamLog, held: HeldRange) -> None:
    """Raises 410 if what is asked for is removed just now."""
    bytes_max = number_of(call, "max_bytes", 0) or None
    for _ in range(HOLDING_TRIES_MAX):
        span = _span(call, log)
        if span[0] >= span[1]:
            return
        hold = partial(held.open, log.safe_segments(), span, bytes_max)
        try:
            await log.workers.run_in_thread(hold)
        except FileNotFoundError:
            continue
        return
    raise _being_cut()


class RecordsResponse(StreamingResponse):
    """Lets go of the range when all of it is sent, or nobody is there to send it to."""

    def __init__(self, workers: Workers, held: HeldRange) -> None:
        length = {"content-length": str(held.size)}
        super().__init__(_bytes_of(workers, held), headers=length, media_type=CHUNKS_TYPE)
        self._workers = workers
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._workers.run_in_thread(self._held.let_go)


async def _bytes_of(workers: Workers, held: HeldRange) -> AsyncIterator[bytes]:
    for piece in tuple(held.pieces):
        for start in range(piece.start, piece.end, PIECE_BYTES):
            size = min(PIECE_BYTES, piece.end - start)
            yield await workers.run_in_thread(partial(held.read, piece, start, size))


def _span(call: Call, log: StreamLog) -> Span:
    """What is asked for, as far as it is there. Raises 410 if some of it is not there any more."""
    start = number_of(call, "from", log.first_offset)
    end = number_of(call, "to", log.end_offset)
    if start < log.first_offset:
        reason = f"offset {start} is gone: the stream begins at {log.first_offset}"
        raise Expired(reason, log.first_offset)
    return start, min(end, log.end_offset)


class Expired(Refusal):
    def __init__(self, reason: str, first_offset: int) -> None:
        super().__init__(410, "offset_expired", {"text": reason, "first_offset": first_offset})


async def _in_thread(workers: Workers, work: partial[T]) -> T:
    """A look into the index; what retention has just removed is as good as never found."""
    try:
        return await workers.run_in_thread(work)
    except FileNotFoundError:
        raise _being_cut() from None


def _being_cut() -> Refusal:
    return Refusal(503, "unavailable", "the stream is being cut; ask again")


def number_of(call: Call, name: str, default: int) -> int:
    text = call.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS_MAX:
        raise bad_request(["not_integer", name])
    return int(text)


RESOURCES: Final = (
    Resource(
        path="/warren/streams/{vhost}/{queue}",
        rule=VHOST_USERS,
        exists=queue_exists,
        get=_show,
        node_of=master_of_stream,
    ),
    Resource(
        path="/warren/streams/{vhost}/{queue}/cuts",
        rule=VHOST_USERS,
        exists=queue_exists,
        get=_cuts,
        node_of=master_of_stream,
    ),
    Resource(
        path="/warren/streams/{vhost}/{queue}/records",
        rule=VHOST_USERS,
        exists=queue_exists,
        get=_records,
        node_of=_master_of_records,
    ),
)
