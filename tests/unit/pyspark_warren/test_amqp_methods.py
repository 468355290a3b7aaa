"""The publisher's own methods are those of the broker's catalogue, byte for byte."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_warren.amqp_methods import (
    METHODS,
    BasicGet,
    BasicPublish,
    ConnectionStartOk,
    MalformedMethod,
    Method,
    decode_method,
    encode_method,
)
from warren.model.fields import Table
from warren.wire import methods as catalogue
from warren.wire.tables import python_to_table

TABLES = st.dictionaries(st.text(max_size=5), st.integers(-9, 9) | st.text(max_size=5)).map(
    python_to_table
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "o": st.integers(0, 2**8 - 1), "h": st.integers(0, 2**16 - 1),
    "i": st.integers(0, 2**32 - 1), "q": st.integers(0, 2**64 - 1), "s": st.text(max_size=60),
    "x": st.text(max_size=300).map(str.encode), "t": TABLES, "b": st.booleans(),
}  # fmt: skip


def method_with(data: st.DataObject, kind: type[Method]) -> Method:
    assert len(fields(kind)) == len(kind.layout)
    return kind(*(data.draw(VALUES[letter]) for letter in kind.layout))


def plain(value: object) -> object:
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("kind", METHODS)
@given(data=st.data())
def test_a_method_is_what_the_broker_takes_it_for(kind: type[Method], data: st.DataObject) -> None:
    method = method_with(data, kind)
    encoded = encode_method(method)
    assert decode_method(encoded) == method
    understood = catalogue.decode_method(encoded)
    assert catalogue.encode_method(understood) == encoded
    assert understood.name.replace(".", "") == kind.__name__
    expected = [plain(getattr(method, field.name)) for field in fields(method)]
    assert [plain(value) for _, value in understood] == expected


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="255 bytes at most"):
        encode_method(BasicGet(queue="q" * 256))


@given(st.integers(0, 30))
def test_a_method_that_is_cut_short_is_refused(length: int) -> None:
    encoded = encode_method(BasicPublish(exchange="exchange", routing_key="key"))
    with pytest.raises(MalformedMethod):
        decode_method(encoded[: min(length, len(encoded) - 1)])
    with pytest.raises(MalformedMethod):
        decode_method(encoded + b"more")


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(ConnectionStartOk(Table(), "PLAIN", b"\0user\0secret"))
