"""What a queue runs with, from its arguments and its policy."""

from __future__ import annotations

import pytest

from warren.model.fields import Field, Table, longstr
from warren.model.records import QueueRecord
from warren.queues.settings import Overflow, QueueSettings, QueueType, settings_of


def queue(**arguments: Field) -> QueueRecord:
    """`max_length=...` is the argument x-max-length."""
    named = [(f"x-{name.replace('_', '-')}", field) for name, field in arguments.items()]
    return QueueRecord("/", "q", arguments=Table(named))


def test_a_queue_without_arguments_has_no_limits() -> None:
    assert settings_of(queue()) == QueueSettings()
    assert QueueSettings().overflow is Overflow.DROP_HEAD


def test_every_argument_has_its_setting() -> None:
    record = queue(
        message_ttl=Field("b", 100),
        expires=Field("I", 200),
        max_length=Field("l", 300),
        max_length_bytes=Field("u", 400),
        overflow=longstr("reject-publish"),
        dead_letter_exchange=longstr(""),
        dead_letter_routing_key=longstr("k"),
        max_priority=Field("B", 5),
        single_active_consumer=Field("t", True),
        queue_type=longstr("quorum"),
        delivery_limit=Field("I", 3),
        queue_mode=longstr("lazy"),
    )
    assert settings_of(record) == QueueSettings(
        message_ttl_ms=100,
        expires_ms=200,
        max_length=300,
        max_length_bytes=400,
        overflow=Overflow.REJECT_PUBLISH,
        dead_letter_exchange="",
        dead_letter_routing_key="k",
        max_priority=5,
        single_active_consumer=True,
        queue_type=QueueType.QUORUM,
        delivery_limit=3,
        lazy=True,
    )


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("message-ttl", "message_ttl_ms"),
        ("expires", "expires_ms"),
        ("max-length", "max_length"),
        ("max-length-bytes", "max_length_bytes"),
        ("delivery-limit", "delivery_limit"),
    ],
)
def test_of_a_limit_by_argument_and_by_policy_the_smaller_holds(name: str, setting: str) -> None:
    record = QueueRecord("/", "q", arguments=Table([(f"x-{name}", Field("I", 50))]))
    assert getattr(settings_of(record, {name: 10}), setting) == 10
    assert getattr(settings_of(record, {name: 90}), setting) == 50
    assert getattr(settings_of(queue(), {name: 90}), setting) == 90


@pytest.mark.parametrize(
    ("name", "theirs", "ours", "setting", "with_policy", "with_argument"),
    [
        ("dead-letter-exchange", "p", "a", "dead_letter_exchange", "p", "a"),
        ("dead-letter-exchange", "p", "", "dead_letter_exchange", "p", ""),
        ("dead-letter-routing-key", "p", "a", "dead_letter_routing_key", "p", "a"),
        ("queue-mode", "lazy", "default", "lazy", True, False),
        (
            "overflow",
            "reject-publish",
            "drop-head",
            "overflow",
            Overflow.REJECT_PUBLISH,
            Overflow.DROP_HEAD,
        ),
    ],
)
def test_of_a_choice_by_argument_and_by_policy_the_argument_holds(
    name: str, theirs: str, ours: str, setting: str, with_policy: object, with_argument: object
) -> None:
    record = QueueRecord("/", "q", arguments=Table([(f"x-{name}", longstr(ours))]))
    assert getattr(settings_of(queue(), {name: theirs}), setting) == with_policy
    assert getattr(settings_of(record, {name: theirs}), setting) == with_argument


def test_priorities_and_the_single_active_consumer_cannot_come_from_a_policy() -> None:
    policy = {"max-priority": 5, "single-active-consumer": True, "queue-type": "quorum"}
    assert settings_of(queue(), policy) == QueueSettings()


def test_a_delivery_limit_that_makes_no_sense_means_nothing() -> None:
    assert settings_of(queue(delivery_limit=longstr("abc"))).delivery_limit is None
    assert settings_of(queue(delivery_limit=Field("I", -1))).delivery_limit is None
