"""Declaring an exchange again, and how differences are told, as RabbitMQ 3.10.8 tells them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from warren.model.equivalence import (
    alternate_exchange_of,
    require_same_arguments,
    require_same_exchange,
)
from warren.model.errors import SoftError
from warren.model.fields import EMPTY_TABLE, Field, Table, array, longstr
from warren.model.records import ExchangeRecord

EXCHANGE = ExchangeRecord("/", "x", "direct", durable=False)


def with_alternate(field: Field) -> ExchangeRecord:
    return replace(EXCHANGE, arguments=Table([("alternate-exchange", field)]))


def inequivalence(existing: Field | None, wanted: Field | None) -> str:
    old = Table([("k", existing)]) if existing is not None else EMPTY_TABLE
    new = Table([("k", wanted)]) if wanted is not None else EMPTY_TABLE
    with pytest.raises(SoftError) as caught:
        require_same_arguments("queue 'q' in vhost '/'", old, new, ["k"])
    assert caught.value.code == 406
    return caught.value.explanation.removeprefix(
        "inequivalent arg 'k' for queue 'q' in vhost '/': "
    )


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (replace(EXCHANGE, type="fanout"), "'type' {}: received 'fanout' but current is 'direct'"),
        (replace(EXCHANGE, durable=True), "'durable' {}: received 'true' but current is 'false'"),
        (
            replace(EXCHANGE, auto_delete=True),
            "'auto_delete' {}: received 'true' but current is 'false'",
        ),
        (replace(EXCHANGE, internal=True), "'internal' {}: received 'true' but current is 'false'"),
        (
            with_alternate(longstr("b")),
            "'alternate-exchange' {}: received the value 'b' of type 'longstr' but current is none",
        ),
    ],
)
def test_an_exchange_that_differs_is_refused(wanted: ExchangeRecord, text: str) -> None:
    with pytest.raises(SoftError) as caught:
        require_same_exchange(EXCHANGE, wanted)
    owner = "for exchange 'x' in vhost '/'"
    assert caught.value.reply_text == f"PRECONDITION_FAILED - inequivalent arg {text.format(owner)}"


def test_other_arguments_of_an_exchange_and_its_creator_do_not_matter() -> None:
    other = replace(EXCHANGE, arguments=Table([("k", longstr("v"))]), created_by="someone")
    require_same_exchange(EXCHANGE, other)


@pytest.mark.parametrize(
    ("existing", "wanted", "text"),
    [
        (longstr("a"), longstr("b"), "received 'b' but current is 'a'"),
        (longstr("a"), None, "received none but current is the value 'a' of type 'longstr'"),
        (
            None,
            Field("I", 1000),
            "received the value '1000' of type 'signedint' but current is none",
        ),
        (None, Field("t", True), "received the value 'true' of type 'bool' but current is none"),
        (Field("I", 1000), Field("d", 1.5), "received '1.5' but current is '1000'"),
        (Field("I", 5), Field("d", 5.0), "received '5.0' but current is '5'"),
        (Field("I", 1), Field("t", True), "received 'true' but current is '1'"),
        (Field("t", True), Field("I", 5), "received '5' but current is 'true'"),
        (Field("I", 1000), Field("V", None), "received none but current is '1000'"),
        (
            Field("I", 1000),
            array([Field("I", 1), longstr("a")]),
            "received '[{signedint,1},{longstr,<<\"a\">>}]' but current is '1000'",
        ),
        (
            longstr("a"),
            Field("F", Table([("a", Field("I", 1))])),
            "received '[{<<\"a\">>,signedint,1}]' but current is 'a'",
        ),
        (Field("I", 1000), Field("F", EMPTY_TABLE), "received '[]' but current is '1000'"),
    ],
)
def test_how_a_difference_is_told(existing: Field | None, wanted: Field | None, text: str) -> None:
    assert inequivalence(existing, wanted) == text


@pytest.mark.parametrize(
    ("existing", "wanted"),
    [
        (Field("I", 1000), Field("l", 1000)),
        (Field("b", 5), Field("u", 5)),
        (Field("I", 1000), Field("T", 1000)),
        (Field("f", 1.5), Field("d", 1.5)),
        (longstr("a"), Field("x", b"a")),
    ],
)
def test_the_same_value_in_another_type_is_the_same(existing: Field, wanted: Field) -> None:
    require_same_arguments("queue", Table([("k", existing)]), Table([("k", wanted)]), ["k"])


def test_only_the_named_arguments_are_compared() -> None:
    old, new = Table([("k", longstr("a"))]), Table([("k", longstr("b"))])
    require_same_arguments("queue", old, new, ["other"])


def test_an_alternate_exchange_is_named_by_a_long_string() -> None:
    assert alternate_exchange_of(EXCHANGE) is None
    assert alternate_exchange_of(with_alternate(longstr("ae"))) == "ae"


@pytest.mark.parametrize(
    ("field", "type_name"),
    [(Field("I", 5), "signedint"), (Field("V", None), "void"), (Field("x", b"a"), "binary")],
)
def test_an_alternate_exchange_of_another_type_is_refused(field: Field, type_name: str) -> None:
    with pytest.raises(SoftError) as caught:
        alternate_exchange_of(with_alternate(field))
    assert caught.value.reply_text == (
        f"PRECONDITION_FAILED - invalid type '{type_name}' for arg 'alternate-exchange'"
        " in exchange 'x' in vhost '/'"
    )
