"""Property blocks, each decoded once, as the columns `headers` and `properties`.

Headers are shown as text: text as it is, numbers and truth values as JSON has them, and tables and
arrays (`x-death`) as JSON, which Spark's `from_json` takes apart. A block that cannot be decoded
has no headers and no properties, rather than ending the query: its body is still good.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa

from pyspark_warren.schema import HEADERS, PROPERTIES, PROPERTY_NAMES
from warren.wire.properties import MalformedProperties, Properties, decode_properties
from warren.wire.tables import table_to_python

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Beyond the year 9999 neither Python nor Spark has dates.
_MOMENT_S_MAX: Final = 253_402_300_799


def headers_column(blocks: list[bytes]) -> pa.MapArray:
    return pa.array([_headers_of(_decoded(block)) for block in blocks], HEADERS)


def properties_column(blocks: list[bytes]) -> pa.StructArray:
    return pa.array([_properties_of(_decoded(block)) for block in blocks], PROPERTIES)


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


def _properties_of(properties: Properties | None) -> dict[str, object] | None:
    if properties is None:
        return None
    shown: dict[str, object] = {}
    for name in PROPERTY_NAMES:
        value = getattr(properties, name)
        if name == "timestamp" and value is not None:
            value = _EPOCH + timedelta(seconds=value) if value <= _MOMENT_S_MAX else None
        shown[name] = _clean(value) if isinstance(value, str) else value
    return shown


def _clean(text: str) -> str:
    """Bytes that are not UTF-8 were kept as surrogates, which Arrow does not take."""
    return text.encode(errors="surrogateescape").decode(errors="replace")
