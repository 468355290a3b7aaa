"""From exchange to queues: cycles, alternate exchanges, several keys, the default exchange."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from topology_samples import binding, exchange, table, to_exchange
from warren.model.fields import Table
from warren.model.records import BindingRecord, DestinationKind, ExchangeRecord
from warren.routing.exchange import Exchange, make_exchange
from warren.routing.router import Router


class World:
    """A few exchanges, bound as told; every queue exists unless said otherwise."""

    def __init__(self, *records: ExchangeRecord) -> None:
        self.exchanges: dict[str, Exchange] = {r.name: make_exchange(r) for r in records}
        self.missing_queues: set[str] = set()
        self.router = Router(self.exchanges, lambda name: name not in self.missing_queues)

    def bind(self, *bindings: BindingRecord) -> World:
        for each in bindings:
            self.exchanges[each.source].bind(each)
        return self

    def route(self, name: str, *keys: str, headers: Table | None = None) -> list[str]:
        return self.router.route(self.exchanges[name], keys, headers)

    def is_cacheable(self, name: str) -> bool:
        return self.router.is_cacheable(self.exchanges[name])


def alternate(name: str) -> dict[str, object]:
    return {"alternate-exchange": name}


def test_a_queue_bound_twice_is_named_once() -> None:
    world = World(exchange("x", "topic"))
    world.bind(*(binding("x", "q", key) for key in ("a.*", "a.b", "#")))
    assert world.route("x", "a.b") == ["q"]


def test_queues_come_in_the_order_of_their_binding() -> None:
    world = World(exchange("x", "fanout"))
    world.bind(*(binding("x", name) for name in ("c", "a", "b")))
    assert world.route("x", "") == ["c", "a", "b"]


def test_a_message_goes_where_any_of_its_keys_leads() -> None:
    world = World(exchange("x"))
    world.bind(*(binding("x", f"q{key}", key) for key in ("1", "2", "3")))
    assert world.route("x", "3", "1", "none") == ["q3", "q1"]


def test_the_default_exchange_routes_to_the_queue_of_that_name() -> None:
    world = World(exchange(""))
    world.missing_queues = {"gone"}
    assert world.route("", "q") == ["q"]
    assert world.route("", "gone") == []
    assert world.route("", "q", "gone", "p", "q") == ["q", "p"]


def test_bindings_between_exchanges_are_followed() -> None:
    world = World(exchange("a", "fanout"), exchange("b", "topic"))
    world.bind(binding("a", to_exchange("b")), binding("b", "q", "a.*"))
    assert world.route("a", "a.b") == ["q"]
    assert world.route("a", "b.b") == []


def test_a_cycle_ends_and_gives_one_copy() -> None:
    world = World(exchange("a", "fanout"), exchange("b", "fanout"))
    world.bind(
        binding("a", to_exchange("b")),
        binding("b", to_exchange("a")),
        binding("a", "q"),
        binding("b", "q"),
    )
    assert world.route("a", "") == ["q"]


def test_an_exchange_bound_to_itself_ends() -> None:
    world = World(exchange("a", "fanout")).bind(binding("a", to_exchange("a")))
    assert world.route("a", "") == []


def test_the_alternate_exchange_gets_what_no_binding_matches() -> None:
    world = World(exchange("x", arguments=alternate("ae")), exchange("ae", "fanout"))
    world.bind(binding("x", "direct", "known"), binding("ae", "spare"))
    assert world.route("x", "known") == ["direct"]
    assert world.route("x", "unknown") == ["spare"]


def test_one_matching_key_of_several_keeps_the_alternate_out() -> None:
    world = World(exchange("x", arguments=alternate("ae")), exchange("ae", "fanout"))
    world.bind(binding("x", "direct", "known"), binding("ae", "spare"))
    assert world.route("x", "unknown", "known") == ["direct"]


def test_alternate_exchanges_form_chains() -> None:
    world = World(
        exchange("x", arguments=alternate("y")),
        exchange("y", arguments=alternate("z")),
        exchange("z", "fanout"),
    ).bind(binding("z", "q"))
    assert world.route("x", "k") == ["q"]


def test_alternate_exchanges_in_a_circle_end() -> None:
    world = World(exchange("x", arguments=alternate("y")), exchange("y", arguments=alternate("x")))
    assert world.route("x", "k") == []


def test_a_missing_alternate_exchange_routes_nothing() -> None:
    assert World(exchange("x", arguments=alternate("none"))).route("x", "k") == []


def test_a_binding_that_leads_nowhere_keeps_the_alternate_out() -> None:
    world = World(
        exchange("x", "fanout", alternate("ae")), exchange("dead"), exchange("ae", "fanout")
    ).bind(binding("x", to_exchange("dead")), binding("ae", "spare"))
    assert world.route("x", "k") == []


def test_the_default_exchange_as_alternate_routes_nothing() -> None:
    """RabbitMQ 3.10.8 has no bindings to look at there, though the queue exists."""
    world = World(exchange("x", arguments=alternate("")), exchange(""))
    assert world.route("x", "q") == []


def test_an_alternate_exchange_further_down_is_used_too() -> None:
    world = World(
        exchange("x", "fanout"), exchange("y", arguments=alternate("ae")), exchange("ae", "fanout")
    ).bind(binding("x", to_exchange("y")), binding("x", "q"), binding("ae", "spare"))
    assert world.route("x", "k") == ["q", "spare"]


def test_a_route_through_a_headers_exchange_is_not_cacheable() -> None:
    world = World(
        exchange("plain", "topic"),
        exchange("bound", "fanout"),
        exchange("spare", arguments=alternate("bound")),
        exchange("h", "headers"),
        exchange("cycle", "fanout"),
    ).bind(
        binding("bound", to_exchange("h")),
        binding("plain", "q", "#"),
        binding("cycle", to_exchange("cycle")),
    )
    assert world.is_cacheable("plain")
    assert world.is_cacheable("cycle")
    assert not world.is_cacheable("h")
    assert not world.is_cacheable("bound")
    assert not world.is_cacheable("spare")


def test_headers_reach_the_exchanges_further_down() -> None:
    world = World(exchange("x", "fanout"), exchange("h", "headers"))
    world.bind(binding("x", to_exchange("h")), binding("h", "q", "", {"a": 1}))
    assert world.route("x", "k", headers=table({"a": 1})) == ["q"]
    assert world.route("x", "k", headers=table({"a": 2})) == []


EXCHANGES = ["e0", "e1", "e2", "e3", "e4"]
KEYS = ["k", "l"]
RECORDS = st.tuples(
    *(
        st.tuples(
            st.sampled_from(["direct", "fanout"]),
            st.none() | st.sampled_from([*EXCHANGES, "missing"]),
        ).map(lambda drawn, name=name: exchange(name, drawn[0], drawn[1] and alternate(drawn[1])))
        for name in EXCHANGES
    )
)
ENDS = st.sampled_from([to_exchange(name) for name in EXCHANGES]) | st.sampled_from(["q", "r", "s"])
BINDINGS = st.lists(
    st.builds(binding, st.sampled_from(EXCHANGES), ENDS, st.sampled_from(KEYS)),
    unique=True,
    max_size=12,
)


def reference_route(world: World, bindings: list[BindingRecord], start: str, key: str) -> set[str]:
    """Breadth first over the bare records, without any of the code under test."""
    queues: set[str] = set()
    visited: set[str] = set()
    waiting = [start]
    while waiting:
        current = waiting.pop(0)
        if current in visited or current not in world.exchanges:
            continue
        visited.add(current)
        record = world.exchanges[current].record
        matched = [
            each
            for each in bindings
            if each.source == current and (record.type == "fanout" or each.routing_key == key)
        ]
        spare = record.arguments.get("alternate-exchange")
        if not matched and spare is not None and isinstance(spare.value, bytes):
            waiting.append(spare.value.decode())
        for each in matched:
            if each.destination.kind is DestinationKind.QUEUE:
                queues.add(each.destination.name)
            else:
                waiting.append(each.destination.name)
    return queues


@given(records=RECORDS, bindings=BINDINGS, start=st.sampled_from(EXCHANGES))
def test_agrees_with_a_plain_walk(
    records: tuple[ExchangeRecord, ...], bindings: list[BindingRecord], start: str
) -> None:
    world = World(*records).bind(*bindings)
    for key in KEYS:
        routed = world.route(start, key)
        assert len(routed) == len(set(routed))
        assert set(routed) == reference_route(world, bindings, start, key)
