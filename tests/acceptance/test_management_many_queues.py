"""Twenty thousand queues: what operators look at stays quick."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from acceptance.management_client import Answer, Api
from broker_process import Address, BrokerProcess

QUEUES: Final = 20_000
FIRST_PAGE_MS_MAX: Final = 100.0
TRIES: Final = 7


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    process = BrokerProcess(tmp_path_factory.mktemp("crowded"))
    process.start()
    api = Api(Address("127.0.0.1", process.http_port))
    # In no particular order, as they come to be in life.
    numbers = ((number * 7919) % QUEUES for number in range(QUEUES))
    queues = [
        {"name": f"queue-{number:05}", "vhost": "/", "durable": False, "auto_delete": False,
         "arguments": {"x-max-length": number}}
        for number in numbers
    ]  # fmt: skip
    api.timeout_s = 120
    api.must(api.post("definitions", body={"queues": queues}))
    yield api
    process.stop()


def quickest_ms(ask: Callable[[], Answer]) -> float:
    """Of several tries: other work on the machine must not fail the test."""
    took = []
    for _ in range(TRIES):
        started = time.perf_counter()
        assert ask().status == 200
        took.append((time.perf_counter() - started) * 1000)
    return min(took)


@pytest.mark.timeout(180)
def test_the_first_page_of_twenty_thousand_queues_is_quick(crowded: Api) -> None:
    page = crowded.must(crowded.get("queues", page=1, page_size=100))
    assert [queue["name"] for queue in page["items"]] == [f"queue-{n:05}" for n in range(100)]
    assert page["total_count"] == QUEUES
    assert quickest_ms(lambda: crowded.get("queues", page=1, page_size=100)) < FIRST_PAGE_MS_MAX
    filtered = quickest_ms(lambda: crowded.get("queues", page=1, name="0123"))
    assert filtered < FIRST_PAGE_MS_MAX


@pytest.mark.timeout(180)
def test_twenty_thousand_queues_are_listed_whole_and_sorted_by_anything(crowded: Api) -> None:
    listed = crowded.must(crowded.get("queues", columns="name"))
    assert [queue["name"] for queue in listed] == [f"queue-{n:05}" for n in range(QUEUES)]
    query = {"page": 1, "page_size": 3, "columns": "name", "sort_reverse": "true"}
    page = crowded.must(crowded.get("queues", sort="arguments.x-max-length", **query))
    names = [queue["name"] for queue in page["items"]]
    assert names == ["queue-19999", "queue-19998", "queue-19997"]


@pytest.mark.timeout(180)
def test_others_are_answered_while_everything_is_listed(crowded: Api) -> None:
    """The broker does not stop for a long list: a short question in the middle is answered."""
    connection = crowded.begin("GET", "/api/queues")
    try:
        answered = quickest_ms(lambda: crowded.get("whoami"))
    finally:
        connection.close()
    assert answered < FIRST_PAGE_MS_MAX
