"""Routes of a virtual host: found once, forgotten when anything changes, never too many."""

from __future__ import annotations

import pytest

from topology_samples import binding, exchange, queue, table, to_exchange
from warren.broker import route_cache
from warren.broker.vhost import VirtualHost
from warren.model.errors import SoftError


@pytest.fixture
def searches(vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of exchanges for which the router was asked, in order."""
    asked: list[str] = []
    route = vhost.router.route

    def count(exchange_: object, keys: object, headers: object) -> list[str]:
        asked.append(exchange_.record.name)
        return route(exchange_, keys, headers)

    monkeypatch.setattr(vhost.router, "route", count)
    return asked


async def test_a_route_is_searched_once(vhost: VirtualHost, searches: list[str]) -> None:
    made = await vhost.declare_queue(queue("q"), False, "c")
    for _ in range(3):
        assert vhost.route("", ["q"], None) == (made,)
        assert vhost.route("", ["none"], None) == ()
    assert searches == ["", ""]


async def test_every_change_of_topology_is_noticed(vhost: VirtualHost) -> None:
    numbers = [vhost.generation]

    async def after(change: object) -> None:
        await change
        numbers.append(vhost.generation)

    await after(vhost.declare_queue(queue("q"), False, "c"))
    assert vhost.route("amq.direct", ["k"], None) == ()
    await after(vhost.bind(binding("amq.direct", "q", "k"), "c"))
    assert len(vhost.route("amq.direct", ["k"], None)) == 1
    await after(vhost.unbind(binding("amq.direct", "q", "k"), "c"))
    assert vhost.route("amq.direct", ["k"], None) == ()
    await after(vhost.declare_exchange(exchange("x")))
    await after(vhost.delete_exchange("x"))
    assert len(vhost.route("", ["q"], None)) == 1
    await after(vhost.delete_queue("q", False, False, "c"))
    assert vhost.route("", ["q"], None) == ()
    assert numbers == sorted(set(numbers))


async def test_what_changes_nothing_keeps_the_routes(vhost: VirtualHost) -> None:
    await vhost.declare_queue(queue("q"), False, "c")
    await vhost.bind(binding("amq.direct", "q", "k"), "c")
    number = vhost.generation
    await vhost.declare_queue(queue("q"), False, "c")
    await vhost.bind(binding("amq.direct", "q", "k"), "c")
    await vhost.unbind(binding("amq.direct", "q", "other"), "c")
    await vhost.delete_exchange("none")
    assert vhost.generation == number


async def test_headers_and_several_keys_are_looked_at_each_time(
    vhost: VirtualHost, searches: list[str]
) -> None:
    made = await vhost.declare_queue(queue("q"), False, "c")
    await vhost.declare_exchange(exchange("x", "fanout"))
    await vhost.bind(binding("x", to_exchange("amq.headers")), "c")
    await vhost.bind(binding("amq.headers", "q", "", {"a": 1}), "c")
    for value, expected in ((1, (made,)), (2, ()), (1, (made,))):
        assert vhost.route("x", ["k"], table({"a": value})) == expected
    assert searches == ["x", "x", "x"]
    for _ in range(2):
        assert vhost.route("", ["q", "none", "q"], None) == (made,)
    assert len(searches) == 5


async def test_there_are_never_more_routes_than_allowed(
    vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_cache, "ROUTES_PER_VHOST_MAX", 10)
    made = await vhost.declare_queue(queue("q"), False, "c")
    await vhost.bind(binding("amq.topic", "q", "#"), "c")
    for number in range(25):
        assert vhost.route("amq.topic", [f"{number}"], None) == (made,)
        assert len(vhost.routes) <= 10
    assert len(vhost.routes) == 5


async def test_publishing_to_a_missing_exchange_is_a_mistake(vhost: VirtualHost) -> None:
    with pytest.raises(SoftError, match="no exchange 'none' in vhost '/'"):
        vhost.route("none", ["k"], None)


async def test_an_alternate_exchange_declared_later_is_used(vhost: VirtualHost) -> None:
    made = await vhost.declare_queue(queue("q"), False, "c")
    await vhost.declare_exchange(exchange("x", arguments={"alternate-exchange": "ae"}))
    assert vhost.route("x", ["k"], None) == ()
    await vhost.declare_exchange(exchange("ae", "fanout"))
    await vhost.bind(binding("ae", "q"), "c")
    assert vhost.route("x", ["k"], None) == (made,)


async def test_keys_of_a_super_stream_leave_other_routes_where_they_are(
    vhost: VirtualHost, searches: list[str]
) -> None:
    await vhost.declare_exchange(exchange("s", "x-super-stream"))
    for number in range(3):
        await vhost.declare_queue(queue(f"s-{number}"), False, "c")
        await vhost.bind(binding("s", f"s-{number}", str(number)), "c")
    vhost.route("", ["s-0"], None)
    found = [vhost.route("s", [f"k{number}"], None) for number in range(500)]
    assert len(set(found)) == 3
    assert len(vhost.routes) == 4
    assert searches == ["", "s", "s", "s"]
