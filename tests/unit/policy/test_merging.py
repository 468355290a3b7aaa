"""Merging of a policy and an operator policy (case 4-31)."""

from __future__ import annotations

import pytest

from warren.model.json_terms import JsonValue
from warren.model.records import Policy
from warren.policy.matching import PolicySet, Target, TargetKind
from warren.policy.merging import NO_POLICY, find_applied, merge, merge_definitions

QUEUE = Target(TargetKind.QUEUE, "q", "classic")


def test_4_31_the_smaller_number_and_all_that_only_one_says_sorted_by_key() -> None:
    ours: dict[str, JsonValue] = {
        "message-ttl": 10,
        "expires": 3,
        "max-length": 7,
        "queue-mode": "lazy",
    }
    operators: dict[str, JsonValue] = {"message-ttl": 2, "expires": 9, "max-length-bytes": 1}
    merged = merge_definitions(ours, operators)
    assert list(merged.items()) == [
        ("expires", 3),
        ("max-length", 7),
        ("max-length-bytes", 1),
        ("message-ttl", 2),
        ("queue-mode", "lazy"),
    ]


@pytest.mark.parametrize(
    ("key", "ours", "operators", "both"),
    [
        ("overflow", "drop-head", "reject-publish", "reject-publish"),
        ("queue-version", 2, 1, 1),
        ("ha-sync-mode", "automatic", "manual", "manual"),
        ("ha-mode", "all", "exactly", "all"),
        ("ha-mode", "nodes", "exactly", "exactly"),
        ("ha-params", 2, 3, 3),
        ("ha-params", 3, 2, 3),
        ("ha-params", ["a", "b", "c"], 1, 1),
        ("ha-params", ["a"], ["b", "c"], ["b", "c"]),
        ("ha-params", ["a", "b"], ["c", "d"], ["c", "d"]),
        ("some-switch", True, False, False),
    ],
)
def test_4_31_of_other_keys(
    key: str, ours: JsonValue, operators: JsonValue, both: JsonValue
) -> None:
    assert merge_definitions({key: ours}, {key: operators}) == {key: both}


def test_without_policies_nothing_applies() -> None:
    assert find_applied(PolicySet(), PolicySet(), QUEUE) is NO_POLICY
    assert merge(None, None) is NO_POLICY


def test_each_of_both_may_apply_alone() -> None:
    policy = Policy("/", "p", "q", {"max-length": 1})
    alone = find_applied(PolicySet([policy]), PolicySet(), QUEUE)
    assert (alone.policy, alone.operator_policy) == (policy, None)
    alone = find_applied(PolicySet(), PolicySet([policy]), QUEUE)
    assert (alone.policy, alone.operator_policy) == (None, policy)
    assert alone.effective == {"max-length": 1}


@pytest.mark.parametrize(
    ("apply_to", "target", "applies"),
    [
        ("all", Target(TargetKind.EXCHANGE, "x"), True),
        ("exchanges", Target(TargetKind.EXCHANGE, "x"), True),
        ("queues", Target(TargetKind.EXCHANGE, "x"), False),
        ("exchanges", QUEUE, False),
        ("classic_queues", QUEUE, True),
        ("quorum_queues", QUEUE, False),
        ("quorum_queues", Target(TargetKind.QUEUE, "q", "quorum"), True),
        ("streams", Target(TargetKind.QUEUE, "q", "stream"), True),
    ],
)
def test_what_a_policy_is_for(apply_to: str, target: Target, applies: bool) -> None:
    policy = Policy("/", "p", "", {"max-length-bytes": 1}, apply_to=apply_to)
    assert (PolicySet([policy]).best_for(target) is policy) is applies


@pytest.mark.parametrize(
    ("queue_type", "key"),
    [("classic", "delivery-limit"), ("quorum", "queue-mode"), ("stream", "message-ttl")],
)
def test_4_33_each_type_of_queue_lacks_some_keys(queue_type: str, key: str) -> None:
    policies = PolicySet([Policy("/", "p", "", {key: 1})])
    assert policies.best_for(Target(TargetKind.QUEUE, "q", queue_type)) is None
    assert policies.best_for(Target(TargetKind.EXCHANGE, "q")) is not None
