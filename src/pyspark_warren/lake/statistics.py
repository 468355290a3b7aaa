"""Statistics of a Parquet file as Delta has them, from the file's own footer.

Readers skip files by these: `numRecords`, the least and greatest value and the number of nulls of
a column. A value that is not known exactly is left out, which costs a reader time and never a row.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow.parquet as pq

# As Delta's own writers have it, counted over the leaves of all columns.
COLUMNS_MAX: Final = 32
TEXT_CHARS_MAX: Final = 32
Json = dict[str, Any]


def delta_statistics(footer: pq.FileMetaData) -> str:
    """Return the JSON that stands in an `add` action."""
    least: Json = {}
    greatest: Json = {}
    nulls: Json = {}
    for column in range(min(footer.num_columns, COLUMNS_MAX)):
        path = footer.schema.column(column).path.split(".")
        if footer.schema.column(column).max_repetition_level:
            continue  # within lists and maps, of which there are no statistics
        found = [
            footer.row_group(group).column(column).statistics
            for group in range(footer.num_row_groups)
        ]
        _add(least, greatest, nulls, path, found)
    shown = {
        "numRecords": footer.num_rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": nulls,
    }
    return json.dumps(shown, separators=(",", ":"))


def _add(least: Json, greatest: Json, nulls: Json, path: list[str], found: list[Any]) -> None:
    if not found or not all(found):
        return
    if all(each.has_null_count for each in found):
        _put(nulls, path, sum(each.null_count for each in found))
    known = [each for each in found if each.has_min_max]
    # A group without any is a group of nulls, which have no part in what is least.
    if not known or any(not each.has_min_max and each.num_values for each in found):
        return
    low, high = min(each.min for each in known), max(each.max for each in known)
    low, high = _shown(low, is_least=True), _shown(high, is_least=False)
    if low is not None and high is not None:
        _put(least, path, low)
        _put(greatest, path, high)


def _put(into: Json, path: list[str], value: object) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value


def _shown(value: object, *, is_least: bool) -> object | None:
    """Return the value as Delta's JSON has it, or None if it has no place there."""
    match value:
        case bool():
            return None
        case str() if len(value) > TEXT_CHARS_MAX:
            # What is cut is less than the whole, so it will do for the least value only.
            return value[:TEXT_CHARS_MAX] if is_least else None
        case int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return float(value) if Decimal(float(value)) == value else None
        case datetime():
            moment = value.astimezone(UTC) if value.tzinfo else value
            text = moment.strftime("%Y-%m-%dT%H:%M:%S.%f")
            return text + ("Z" if value.tzinfo else "")
        case date():
            return value.isoformat()
        case _:
            return None
