"""Property blocks, each decoded once, as the columns `headers` and `properties`.

Headers are shown as text: text as it is, numbers and truth values as JSON has them, and tables and
arrays (`x-death`) as JSON, which Spark's `from_json` takes apart. A block that cannot be decoded
has no headers and no properties, rather than ending the query: its body is still good.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa

from pyspark_warren.schema import HEADERS, PROPERTY_NAMES, properties_type
from warren.wire.properties import MalformedProperties, Properties, decode_properties
from warren.wire.tables import table_to_python

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Beyond the year 9999 neither Python nor Spark has dates.
_MOMENT_S_MAX: Final = 253_402_300_799


def headers_column(blocks: list[bytes]) -> pa.MapArray:
    return pa.array([_headers_of(_decoded(block)) for block in blocks], HEADERS)


def properties_column(blocks: list[bytes], names: Sequence[str] = PROPERTY_NAMES) -> pa.StructArray:
    """The properties with these names."""
    shown = [_properties_of(_decoded(block), names) for block in blocks]
    return pa.array(shown, properties_type(names))


def plain_headers(block: bytes) -> dict[str, object]:
    """Headers with their values as Python has them; empty if there are none."""
    properties = _decoded(block)
    if properties is None or properties.headers is None:
        return {}
    return dict(table_to_python(properties.headers))


def _decoded(block: bytes) -> Properties | None:
    try:
        return decode_properties(block)
    except (MalformedProperties, IndexError):
        return None


def _headers_of(properties: Properties | None) -> list[tuple[str, str | None]] | None:
    if properties is None or properties.headers is None:
        return None
    plain = table_to_python(properties.headers)
    return [(_clean(name), _shown(value)) for name, value in plain.items()]


def _shown(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return _clean(json.dumps(value, ensure_ascii=False))


def _properties_of(properties: Properties | None, names: Sequence[str]) -> dict[str, object] | None:
    if properties is None:
        return None
    shown: dict[str, object] = {}
    for name in names:
        value = getattr(properties, name)
        if name == "timestamp" and value is not None:
            value = _EPOCH + timedelta(seconds=value) if value <= _MOMENT_S_MAX else None
        shown[name] = _clean(value) if isinstance(value, str) else value
    return shown


def _clean(text: str) -> str:
    """Bytes that are not UTF-8 were kept as surrogates, which Arrow does not take."""
    return text.encode(errors="surrogateescape").decode(errors="replace")
