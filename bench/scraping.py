"""What it costs to be looked at: Prometheus scrapes a broker that has 20 000 queues.

Three things matter. A scrape must be answered soon. It must not hold up the event loop: a message
that comes meanwhile, at an easy rate, tells by how late it is. And the same load must be as fast
whether somebody scrapes every five seconds or not.
"""

from __future__ import annotations

import http.client
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from bench.brokers import Broker, warren
from bench.load import Measurement, measure, median, run
from bench.report import Table, rate
from bench.scenarios import SCENARIOS

QUEUES: Final = 20_000
# mqload lets one client use at most 4096 queues.
QUEUES_PER_CLIENT: Final = 4_000
INTERVAL_S: Final = 5.0
LOOKS: Final = 20
LONGEST_SCRAPE_S: Final = 60.0
LOAD: Final = "a"
PACED: Final = "i0"
COLUMNS: Final = ("what", "not scraped", "scraped", "scraped / not")


def scraping(repeats: int, seconds: float, say: Callable[[str], None]) -> Table:
    table = Table(f"Scraped with {QUEUES} queues", COLUMNS)
    # Long enough that at least two scrapes fall into every run.
    seconds = max(seconds, 2 * INTERVAL_S)
    with warren() as broker:
        say(f"scraping: declaring {QUEUES} queues")
        declare_queues(broker)
        for path in ("/metrics", "/metrics/per-object"):
            say(f"scraping: {path}")
            table.rows.append((f"GET {path}, ms", "", f"{answer_ms(broker, path):.0f}", ""))
        add_throughput(table, broker, repeats, seconds, say)
        add_lateness(table, broker, seconds, say)
    table.notes.append(
        f"Answers: median of {LOOKS}, broker idle. Throughput: median of {repeats} runs of "
        f"{seconds:g} s, scraped every {INTERVAL_S:g} s or not, alternating. Latency at 1000 msg/s "
        "while scraped without a pause."
    )
    return table


def declare_queues(broker: Broker) -> None:
    """With one message each, so that none is too empty to be looked at."""
    for start in range(0, QUEUES, QUEUES_PER_CLIENT):
        count = min(QUEUES_PER_CLIENT, QUEUES - start)
        options = f"--queue many{start}- --queues {count} --publish-only --count {count}"
        run(broker, ["--declare", *options.split()])


def add_throughput(
    table: Table, broker: Broker, repeats: int, seconds: float, say: Callable[[str], None]
) -> None:
    options = SCENARIOS[LOAD].options(seconds)
    plain: list[Measurement] = []
    scraped: list[Measurement] = []
    for repeat in range(repeats):
        say(f"scraping: {SCENARIOS[LOAD].title}, run {repeat + 1} of {repeats}")
        for results, pause_s in ((plain, None), (scraped, INTERVAL_S))[:: 1 if repeat % 2 else -1]:
            with scrapes(broker, pause_s):
                results.append(measure(broker, options))
    before, after = median(plain), median(scraped)
    title = SCENARIOS[LOAD].title
    table.rows.append(
        (f"{title}, msg/s", rate(before.rate), rate(after.rate), f"{after.rate / before.rate:.3f}x")
    )
    table.rows.append(
        (
            f"{title}, CPU us/msg",
            f"{before.cpu_us:.3f}",
            f"{after.cpu_us:.3f}",
            f"{after.cpu_us / before.cpu_us:.3f}x",
        )
    )


def add_lateness(table: Table, broker: Broker, seconds: float, say: Callable[[str], None]) -> None:
    say("scraping: latency")
    options = SCENARIOS[PACED].options(seconds)
    found = []
    for pause_s in (None, 0.0):
        with scrapes(broker, pause_s):
            found.append(run(broker, options)["latency_us"])
    for name in ("p50", "p99", "max"):
        before, after = (latency[name] / 1000 for latency in found)
        table.rows.append(
            (f"latency {name}, ms", f"{before:.2f}", f"{after:.2f}", f"{after / before:.1f}x")
        )


@contextmanager
def scrapes(broker: Broker, pause_s: float | None) -> Iterator[None]:
    """Look again and again meanwhile, with such a pause; None: do not look."""
    if pause_s is None:
        yield
        return
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            fetch(broker, "/metrics")
            is_over.wait(pause_s)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        is_over.set()
        looking.join()


def answer_ms(broker: Broker, path: str) -> float:
    taken = []
    for _ in range(LOOKS):
        started = time.monotonic()
        fetch(broker, path)
        taken.append(time.monotonic() - started)
    return 1000 * statistics.median(taken)


def fetch(broker: Broker, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=LONGEST_SCRAPE_S)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status != 200 or not text:
        raise RuntimeError(f"{path} answered {answer.status}")
