"""Where a new queue goes: who decides, and what for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from warren.cluster.placement import Locator, LocatorDefaults, locator_of, master_for
from warren.model.fields import Field, Table
from warren.model.records import QueueRecord

MASTERS = {"n1": 15, "n2": 8, "n3": 1}


def last(nodes: Sequence[str]) -> str:
    return nodes[-1]


def queue(locator: str | None) -> QueueRecord:
    if locator is None:
        return QueueRecord("/", "q")
    value = Field("S", locator.encode())
    return QueueRecord("/", "q", arguments=Table([("x-queue-master-locator", value)]))


@pytest.mark.parametrize(
    ("argument", "policy", "expected"),
    [
        (None, {}, Locator.MIN_MASTERS),
        (None, {"queue-master-locator": "random"}, Locator.RANDOM),
        ("client-local", {"queue-master-locator": "random"}, Locator.CLIENT_LOCAL),
        ("nonsense", {"queue-master-locator": "random"}, Locator.RANDOM),
        (None, {"queue-master-locator": "nonsense"}, Locator.MIN_MASTERS),
    ],
)
def test_the_argument_goes_before_the_policy_and_that_before_the_configuration(
    argument: str | None, policy: Mapping[str, object], expected: Locator
) -> None:
    """4-22."""
    assert locator_of(queue(argument), policy, LocatorDefaults("min-masters")) is expected


@pytest.mark.parametrize(
    ("kind", "argument", "policy", "expected"),
    [
        ("quorum", None, {}, Locator.RANDOM),
        ("quorum", "balanced", {"queue-leader-locator": "random"}, Locator.MIN_MASTERS),
        ("quorum", None, {"queue-leader-locator": "least-leaders"}, Locator.MIN_MASTERS),
        ("stream", "client-local", {"queue-master-locator": "random"}, Locator.CLIENT_LOCAL),
        ("classic", "balanced", {"queue-leader-locator": "random"}, Locator.CLIENT_LOCAL),
    ],
)
def test_quorum_queues_and_streams_go_by_the_locator_of_leaders(
    kind: str, argument: str | None, policy: Mapping[str, object], expected: Locator
) -> None:
    arguments = [("x-queue-type", Field("S", kind.encode()))]
    if argument is not None:
        arguments.append(("x-queue-leader-locator", Field("S", argument.encode())))
    record = QueueRecord("/", "q", arguments=Table(arguments))
    assert locator_of(record, policy, LocatorDefaults("client-local", "random")) is expected


def test_min_masters_takes_the_node_with_the_fewest_and_then_the_first_by_name() -> None:
    """4-22, 4-25."""
    assert master_for(Locator.MIN_MASTERS, "n1", MASTERS, last) == "n3"
    assert master_for(Locator.MIN_MASTERS, "n3", {"n3": 1, "n2": 1}, last) == "n2"


def test_client_local_stays_and_random_takes_what_is_chosen() -> None:
    """4-25."""
    assert master_for(Locator.CLIENT_LOCAL, "n1", MASTERS, last) == "n1"
    assert master_for(Locator.RANDOM, "n1", MASTERS, last) == "n3"


@pytest.mark.parametrize("locator", Locator)
def test_with_no_node_in_service_a_queue_stays_where_it_is_declared(locator: Locator) -> None:
    """4-26."""
    assert master_for(locator, "n1", {}, last) == "n1"
