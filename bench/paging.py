"""Paging: a queue that is larger than the memory that its node may have, filled and drained.

The watermark is 400 MB, so messages begin to leave memory at 200 MB. Every half second the states
of the messages (alpha, beta, gamma, delta) and the memory of the process are noted; a plot of them
is written into docs/images. Messages become gamma, large transient ones beta; of small ones there
are so many that most places go, too, to delta. Each body that was read from a message store is
counted: none should be read twice.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from bench.brokers import Broker, warren
from bench.load import ROOT, LoadFailed, run
from bench.report import Table

WATERMARK_MIB: Final = 400
INTERVAL_S: Final = 0.5
SECONDS_MAX: Final = 300
PLOT: Final = ROOT / "docs" / "images" / "paging.svg"
QUEUE: Final = "--queue qp --durable"
PUBLISH: Final = "--publish-only --confirm 500"
DRAIN: Final = "--drain --prefetch 500 --ack-every 100 --delete-after"
COLUMNS: Final = (
    "load", "second", "alpha", "beta", "gamma", "delta", "RSS MiB", "what",
)  # fmt: skip
ROWS_MAX: Final = 8
"""Moments of each half that the table shows; the plot has all."""
_READS: Final = re.compile(r"^rabbitmq_msg_store_read_total\S* (\S+)$", re.MULTILINE)


class Load(NamedTuple):
    name: str
    options: str
    messages: int


LOADS: Final = (
    Load("1 KB persistent", "--size 1024 --persistent", 2_000_000),
    Load("200 KB persistent", "--size 204800 --persistent", 20_000),
    Load("200 KB transient", "--size 204800", 20_000),
)


class Moment(NamedTuple):
    second: float
    alpha: int
    beta: int
    gamma: int
    delta: int
    rss_mib: float


@dataclass
class Course:
    """What happened to one load, moment by moment; it was full after `filled_s`."""

    load: Load
    count: int
    moments: list[Moment] = field(default_factory=list)
    filled_s: float = 0.0
    publish_rate: float = 0.0
    publish_cpu_us: float = 0.0
    drain_rate: float = 0.0
    drain_cpu_us: float = 0.0
    reads_per_message: float = 0.0


def paging(share: float, say: Callable[[str], None], plot: Path = PLOT) -> Table:
    """Run all loads, with `share` of their messages."""
    table = Table(f"Paging with a watermark of {WATERMARK_MIB} MB", COLUMNS)
    courses = []
    for load in LOADS:
        count = max(1, int(load.messages * share))
        say(f"paging: {count:,} messages, {load.name}")
        try:
            with TemporaryDirectory(prefix="warren-paging-") as directory:
                path = Path(directory, "warren.conf")
                path.write_text(f"vm_memory_high_watermark.absolute = {WATERMARK_MIB}MB\n")
                with warren(["--config", str(path)]) as broker:
                    course = fill_and_drain(broker, load, count)
        except LoadFailed as failure:
            table.failures.append(f"paging, {load.name}: {failure}")
            continue
        courses.append(course)
        add_rows(table, course)
    plot.parent.mkdir(exist_ok=True)
    plot.write_text(drawn(courses))
    return table


def fill_and_drain(broker: Broker, load: Load, count: int) -> Course:
    course = Course(load, count)
    with watched(broker, course):
        limits = ["--max-seconds", str(SECONDS_MAX)]
        options = f"{QUEUE} --declare {load.options} {PUBLISH} --count {count}"
        filled = run(broker, [*options.split(), *limits])
        course.filled_s = course.moments[-1].second if course.moments else 0.0
        drained = run(broker, [*f"{QUEUE} {DRAIN} --expect {count}".split(), *limits])
        if drained["consumed"] < count:
            raise LoadFailed(f"only {drained['consumed']} of {count} messages came back")
        course.reads_per_message = store_reads(broker) / count
    course.publish_rate, course.drain_rate = filled["publish_rate"], drained["consume_rate"]
    course.publish_cpu_us = filled["broker_cpu_us_per_msg"]
    course.drain_cpu_us = drained["broker_cpu_us_per_msg"]
    return course


@contextmanager
def watched(broker: Broker, course: Course) -> Iterator[None]:
    ended = threading.Event()
    began = time.monotonic()

    def watch() -> None:
        while not ended.wait(INTERVAL_S):
            counts = tiers(broker)
            if counts is not None:
                second = time.monotonic() - began
                course.moments.append(Moment(second, *counts, broker.rss_kb() / 1024))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def tiers(broker: Broker) -> tuple[int, int, int, int] | None:
    """None before the queue is declared and after it is deleted."""
    status, body = get(broker, "/api/queues/%2F/qp")
    if status != http.client.OK:
        return None
    told = json.loads(body)["backing_queue_status"]
    return told["alpha"], told["beta"], told["gamma"], told["delta"][2]


def store_reads(broker: Broker) -> float:
    return sum(float(value) for value in _READS.findall(get(broker, "/metrics")[1]))


def get(broker: Broker, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=30)
    token = base64.b64encode(b"guest:guest").decode()
    connection.request("GET", path, headers={"Authorization": f"Basic {token}"})
    response = connection.getresponse()
    answer = response.status, response.read().decode()
    connection.close()
    return answer


def add_rows(table: Table, course: Course) -> None:
    halves = (
        ("fill", [m for m in course.moments if m.second <= course.filled_s]),
        ("drain", [m for m in course.moments if m.second > course.filled_s]),
    )
    for what, moments in halves:
        step = max(1, len(moments) // ROWS_MAX)
        for moment in moments[::step]:
            counts = [f"{count:,}" for count in moment[1:5]]
            row = [course.load.name, f"{moment.second:.1f}", *counts, f"{moment.rss_mib:.0f}", what]
            table.rows.append(row)
    highest = max((moment.rss_mib for moment in course.moments), default=0.0)
    table.notes.append(
        f"{course.count:,} x {course.load.name}: published {course.publish_rate:,.0f}/s "
        f"({course.publish_cpu_us:.0f} us of CPU each), drained {course.drain_rate:,.0f}/s "
        f"({course.drain_cpu_us:.0f} us), {course.reads_per_message:.3f} bodies read from the "
        f"message store per message, memory at most {highest:.0f} MiB.  "
    )


# The plot: a strip for each load, states stacked, the line of memory above them.

WIDTH: Final = 800
HEIGHT: Final = 200
GAP: Final = 50
COLOURS: Final = {"alpha": "#4477aa", "beta": "#ccbb44", "gamma": "#ee6677", "delta": "#bbbbbb"}


def drawn(courses: list[Course]) -> str:
    parts = [drawn_course(course, n * (HEIGHT + GAP) + GAP) for n, course in enumerate(courses)]
    height = len(courses) * (HEIGHT + GAP) + GAP
    legend = "".join(
        f'<rect x="{20 + 90 * n}" y="8" width="12" height="12" fill="{colour}"/>'
        f'<text x="{37 + 90 * n}" y="18">{name}</text>'
        for n, (name, colour) in enumerate(COLOURS.items())
    )
    memory = '<text x="400" y="18">line: memory of the process, full height = the watermark</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="12">{legend}{memory}{"".join(parts)}</svg>\n'
    )


def drawn_course(course: Course, top: int) -> str:
    moments = course.moments
    if not moments:
        return ""
    last = moments[-1].second
    xs = [WIDTH * moment.second / last for moment in moments]
    below = [0.0] * len(moments)
    parts = [
        f'<text x="4" y="{top - 6}">{course.count:,} x {course.load.name}, {last:.0f} s</text>'
    ]
    for name, colour in COLOURS.items():
        heights = [HEIGHT * getattr(moment, name) / course.count for moment in moments]
        above = [base + height for base, height in zip(below, heights, strict=True)]
        outline = [*zip(xs, below, strict=True), *reversed(list(zip(xs, above, strict=True)))]
        points = " ".join(f"{x:.1f},{top + HEIGHT - y:.1f}" for x, y in outline)
        parts.append(f'<polygon points="{points}" fill="{colour}"/>')
        below = above
    line = " ".join(
        f"{x:.1f},{top + HEIGHT * (1 - moment.rss_mib / WATERMARK_MIB):.1f}"
        for x, moment in zip(xs, moments, strict=True)
    )
    parts.append(f'<polyline points="{line}" fill="none" stroke="black" stroke-width="1.5"/>')
    frame = f'x="0" y="{top}" width="{WIDTH}" height="{HEIGHT}"'
    return "".join([*parts, f'<rect {frame} fill="none" stroke="#888888"/>'])
