"""Validation of policies (cases 4-23, 4-27 to 4-29): what they may say.

RabbitMQ 3.10.8 was asked all this, and gave these texts.
"""

from __future__ import annotations

import pytest

from warren.model.json_terms import JsonValue
from warren.model.records import Policy
from warren.policy.validation import PolicyInvalid, parse_policy, problems_of, require_valid

NO_MODE = "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"


def problem(definition: JsonValue, operator: bool = False) -> str | None:
    terms = {"pattern": "x", "definition": definition, "priority": 0, "apply-to": "all"}
    found = problems_of("p", terms, operator)
    assert len(found) < 2
    return found[0] if found else None


@pytest.mark.parametrize(
    "definition",
    [
        {"ha-mode": "all"},
        {"ha-mode": "nodes", "ha-params": ["a", "b"]},
        {"ha-mode": "exactly", "ha-params": 2},
        {"ha-mode": "all", "ha-sync-mode": "manual"},
        {"ha-mode": "all", "ha-sync-mode": "automatic", "ha-sync-batch-size": 1},
        {"ha-mode": "all", "ha-promote-on-shutdown": "always"},
        {"ha-mode": "all", "ha-promote-on-failure": "when-synced"},
        {"queue-master-locator": "min-masters"},
        {"queue-mode": "lazy"},
        {"queue-version": 2},
        {"message-ttl": 0},
        {"message-ttl": 10**30},
        {"expires": 1},
        {"max-length": 0, "max-length-bytes": 0, "overflow": "reject-publish-dlx"},
        {"dead-letter-exchange": "", "dead-letter-routing-key": ""},
        {"dead-letter-strategy": "at-least-once"},
        {"alternate-exchange": "x"},
        {"delivery-limit": 0},
        {"max-age": "1Y"},
        {"queue-leader-locator": "client-local", "initial-cluster-size": 0},
        {"stream-max-segment-size-bytes": 3_000_000_000},
        {"max-in-memory-length": 0, "max-in-memory-bytes": 0},
        {"consumer-timeout": 0},
    ],
)
def test_4_29_it_may_be_set(definition: dict[str, JsonValue]) -> None:
    assert problem(definition) is None


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"ha-mode": "al"}, '<<"al">> is not a valid ha-mode value'),
        ({"ha-params": 2}, NO_MODE),
        ({"ha-sync-mode": "automatic"}, NO_MODE),
        ({"ha-sync-batch-size": 4}, NO_MODE),
        ({"ha-promote-on-failure": "always"}, NO_MODE),
        ({"ha-mode": "all", "ha-params": 2}, 'ha-mode="all" does not take parameters'),
        ({"ha-mode": "exactly"}, 'ha-mode="exactly" takes an integer, none given'),
        (
            {"ha-mode": "exactly", "ha-params": "2"},
            'ha-mode="exactly" takes an integer, <<"2">> given',
        ),
        ({"ha-mode": "exactly", "ha-params": 0}, 'ha-mode="exactly" takes an integer, 0 given'),
        ({"ha-mode": "nodes"}, 'ha-mode="nodes" takes a list, none given'),
        ({"ha-mode": "nodes", "ha-params": "a"}, 'ha-mode="nodes" takes a list, <<"a">> given'),
        ({"ha-mode": "nodes", "ha-params": []}, 'ha-mode="nodes" list must be non-empty'),
        (
            {"ha-mode": "nodes", "ha-params": ["a", 1]},
            'ha-mode="nodes" takes a list of strings, [1] was not a string',
        ),
        (
            {"ha-mode": "all", "ha-sync-mode": "x"},
            'ha-sync-mode must be "manual" or "automatic", got <<"x">>',
        ),
        (
            {"ha-mode": "all", "ha-sync-batch-size": 0},
            "ha-sync-batch-size takes an integer greater than 0, 0 given",
        ),
        (
            {"ha-mode": "all", "ha-promote-on-shutdown": "x"},
            'ha-promote-on-shutdown must be "always" or "when-synced", got <<"x">>',
        ),
        (
            {"ha-mode": "all", "ha-promote-on-failure": "x"},
            'ha-promote-on-failure must be "always" or "when-synced", got <<"x">>',
        ),
    ],
)
def test_4_27_mirroring_that_may_not_be_set(definition: dict[str, JsonValue], text: str) -> None:
    assert problem(definition) == text


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"queue-master-locator": "x"}, '<<"x">> invalid queue-master-locator value'),
        ({"queue-mode": "x"}, '<<"x">> is not a valid queue-mode value'),
        ({"queue-mode": 1}, "1 is not a valid queue-mode value"),
        ({"queue-version": 3}, "3 is not a valid queue-version value"),
        ({"queue-version": "2"}, '<<"2">> is not a valid queue-version value'),
        ({"message-ttl": -1}, "-1 is not a valid message TTL"),
        ({"message-ttl": "1"}, '<<"1">> is not a valid message TTL'),
        ({"message-ttl": 1.5}, "1.5 is not a valid message TTL"),
        ({"message-ttl": 1e20}, "1.0e20 is not a valid message TTL"),
        ({"message-ttl": True}, "true is not a valid message TTL"),
        ({"message-ttl": None}, "null is not a valid message TTL"),
        ({"message-ttl": []}, "[] is not a valid message TTL"),
        ({"message-ttl": [1, 2]}, "[1,2] is not a valid message TTL"),
        ({"message-ttl": {}}, "#{} is not a valid message TTL"),
        (
            {"message-ttl": {"a": 1, "b": "x"}},
            '#{<<"a">> => 1,<<"b">> => <<"x">>} is not a valid message TTL',
        ),
        ({"message-ttl": "ünï"}, '<<"ünï">> is not a valid message TTL'),
        ({"message-ttl": "日本"}, "<<230,151,165,230,156,172>> is not a valid message TTL"),
        ({"message-ttl": 'a\nb"c'}, '<<"a\\nb\\"c">> is not a valid message TTL'),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"max-length": -1}, "-1 is not a valid maximum length"),
        ({"max-length-bytes": "x"}, '<<"x">> is not a valid maximum length in bytes'),
        ({"max-in-memory-length": -1}, "-1 is not a valid maximum memory in bytes"),
        ({"overflow": 1}, "1 is not a valid overflow value"),
        ({"dead-letter-exchange": 1}, "1 is not a valid dead letter exchange name"),
        ({"dead-letter-routing-key": 1}, "1 is not a valid dead letter routing key"),
        ({"dead-letter-strategy": "x"}, '<<"x">> is not a valid dead letter strategy'),
        ({"alternate-exchange": 1}, "1 is not a valid alternate exchange name"),
        ({"delivery-limit": -1}, "-1 is not a valid delivery limit"),
        ({"max-age": "0D"}, '<<"0D">> is not a valid max age'),
        ({"initial-cluster-size": "x"}, '<<"x">> is not a valid cluster size'),
        ({"queue-leader-locator": "x"}, '<<"x">> is not a valid queue leader locator value'),
        (
            {"stream-max-segment-size-bytes": 10**12},
            "1000000000000 is not a valid segment size",
        ),
    ],
)
def test_4_29_it_may_not_be_set(definition: dict[str, JsonValue], text: str) -> None:
    assert problem(definition) == text


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({}, "no policy provided"),
        (5, "definition must be a dictionary: 5"),
        ({"zz": "v"}, '[{<<"zz">>,<<"v">>}] are not recognised policy settings'),
        ({"ha-mode": "all", "ha-foo": 1}, '[{<<"ha-foo">>,1}] are not recognised policy settings'),
        (
            {"zz": 1, "yy": ["a"]},
            '[{<<"yy">>,[<<"a">>]},{<<"zz">>,1}] are not recognised policy settings',
        ),
    ],
)
def test_4_28_what_is_no_policy_at_all(definition: JsonValue, text: str) -> None:
    assert problem(definition) == text


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"message-ttl": -1, "expires": 0, "max-length": "a"}, "0 is not a valid queue expiry"),
        ({"zz": 1, "message-ttl": -1}, "-1 is not a valid message TTL"),
        ({"ha-mode": "x", "message-ttl": -1}, '<<"x">> is not a valid ha-mode value'),
        (
            {"ha-mode": "x", "queue-master-locator": "y"},
            '<<"y">> invalid queue-master-locator value',
        ),
    ],
)
def test_only_the_first_mistake_of_a_definition_is_told(
    definition: dict[str, JsonValue], text: str
) -> None:
    assert problem(definition) == text


def test_4_23_one_family_of_keys_may_be_right_and_the_policy_refused() -> None:
    definition: dict[str, JsonValue] = {
        "queue-master-locator": "min-masters",
        "ha-mode": "exactly",
        "ha-params": "2",
    }
    assert problem(definition) == 'ha-mode="exactly" takes an integer, <<"2">> given'


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"message-ttl": -1}, "-1 is not a valid message TTL"),
        (
            {"dead-letter-exchange": "x"},
            '[{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings',
        ),
        ({"queue-mode": 1}, '[{<<"queue-mode">>,1}] are not recognised policy settings'),
        ({"ha-sync-batch-size": 4}, "are not recognised policy settings"),
    ],
)
def test_operator_policies_know_fewer_keys(definition: dict[str, JsonValue], text: str) -> None:
    found = problem(definition, operator=True)
    assert found is not None
    assert text in found


def test_each_part_of_a_policy_is_checked() -> None:
    terms: dict[str, JsonValue] = {
        "pattern": "(",
        "definition": {"message-ttl": -1},
        "apply-to": "x",
        "priority": "s",
    }
    with pytest.raises(PolicyInvalid) as raised:
        parse_policy("/", "p", terms)
    assert str(raised.value) == (
        "Validation failed\n\n"
        "-1 is not a valid message TTL\n"
        "apply-to 'x' unrecognised; should be 'queues', 'exchanges' or 'all'\n"
        'pattern should be regular expression but is invalid: {"missing )",1}\n'
        'priority should be a number, actually was <<"s">>\n'
    )


def test_parts_that_are_missing_or_unknown_are_told() -> None:
    assert problems_of("p3", {}) == [
        'Key "definition" not found in p3',
        'Key "pattern" not found in p3',
        'Key "priority" not found in p3',
    ]
    terms: dict[str, JsonValue] = {**Policy("/", "p", "", {"max-length": 1}).terms(), "zz": 1}
    assert problems_of("p", terms) == ['Unrecognised terms [{<<"zz">>,1}] in p']


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", '{"missing )",1}'),
        ("ab(cd", '{"missing )",5}'),
        ("*a", '{"nothing to repeat",0}'),
        ("a**", '{"nothing to repeat",2}'),
        ("[a", '{"missing terminating ] for character class",\n' + " " * 54 + "2}"),
        ("a)", '{"unmatched parentheses",\n' + " " * 54 + "1}"),
        ("a\\", '{"\\\\ at end of pattern",\n' + " " * 54 + "2}"),
        ("[z-a]", '{"range out of order in character class",\n' + " " * 54 + "3}"),
        ("a{2,1}", '{"numbers out of order in {} quantifier",\n' + " " * 54 + "5}"),
        ("(?z)", '{"unrecognized character after (? or (?-",\n' + " " * 54 + "2}"),
        ("[[:foo:]]", '{"unknown POSIX class name",\n' + " " * 54 + "3}"),
        ("\\1", '{"reference to non-existent subpattern",\n' + " " * 54 + "2}"),
    ],
)
def test_a_pattern_that_is_none_is_told_in_the_words_of_pcre(pattern: str, reason: str) -> None:
    with pytest.raises(PolicyInvalid) as raised:
        require_valid(Policy("/", "p", pattern, {"max-length": 1}))
    assert raised.value.problems == [
        f"pattern should be regular expression but is invalid: {reason}"
    ]


@pytest.mark.parametrize("apply_to", ["queues", "exchanges", "all", "classic_queues"])
@pytest.mark.parametrize("priority", [0, -5, 1.5, 10**30])
def test_policies_of_any_sort_and_strength_may_be_set(apply_to: str, priority: float) -> None:
    require_valid(Policy("/", "p", "", {"max-length": 1}, priority, apply_to))
