"""The choice of a replay: which rows are published once more, and where to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from pyspark_warren.errors import InvalidOption
from pyspark_warren.lake import HOUR_FORMAT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROUTES_MAX: Final = 1_000
COLUMNS: Final = ("value", "queue", "offset", "exchange", "routing_key", "headers", "properties")
# What counting takes, unless there is a condition of the user's own.
COUNTED_COLUMNS: Final = ("queue", "offset", "timestamp", "exchange", "routing_key")

Routes = dict[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Choice:
    """Conditions on rows, and the address that they are given."""

    since: datetime | None = None
    until: datetime | None = None
    routing_key: str | None = None
    where: str | None = None
    to_exchange: str | None = None
    to_routing_key: str | None = None

    def of(self, rows: DataFrame) -> DataFrame:
        for condition in self._conditions():
            rows = rows.filter(condition)
        if self.to_exchange is not None:
            rows = rows.withColumn("exchange", F.lit(self.to_exchange))
        if self.to_routing_key is not None:
            rows = rows.withColumn("routing_key", F.lit(self.to_routing_key))
        return rows

    def has_hour(self, hour: str) -> bool:
        """Return False if no row of a partition can be chosen."""
        if self.since is not None and hour < self.since.astimezone(UTC).strftime(HOUR_FORMAT):
            return False
        return self.until is None or hour <= self.until.astimezone(UTC).strftime(HOUR_FORMAT)

    def routes(self, rows: DataFrame) -> Routes:
        """Count the rows by where they would go."""
        counted = self.of(rows).groupBy("exchange", "routing_key").count()
        found = counted.orderBy(F.desc("count")).limit(ROUTES_MAX).collect()
        return {(row["exchange"], row["routing_key"]): row["count"] for row in found}

    def messages(self, rows: DataFrame) -> DataFrame:
        """Return the columns that the sink takes."""
        # The broker would refuse the user id of whoever published first.
        properties = F.col("properties").dropFields("user_id")
        return self.of(rows).select(*COLUMNS).withColumn("properties", properties)

    def _conditions(self) -> list[Column]:
        found = []
        if self.since is not None:
            found.append(F.col("timestamp") >= F.lit(self.since))
        if self.until is not None:
            found.append(F.col("timestamp") < F.lit(self.until))
        if self.routing_key is not None:
            found.append(F.col("routing_key").rlike(topic_expression(self.routing_key)))
        if self.where is not None:
            found.append(F.expr(self.where))
        return found


def topic_expression(pattern: str) -> str:
    """Return the regular expression of a topic's binding key: `*` is a word, `#` any number.

    Examples
    --------
    >>> topic_expression("a.*")
    '^a\\\\.[^.]+$'
    """
    if pattern == "#":
        return ""
    known = {"#": "#", "*": "[^.]+"}
    words = "\\.".join(known.get(word, re.escape(word)) for word in pattern.split("."))
    words = words.replace("\\.#", "(\\.[^.]+)*").replace("#\\.", "([^.]+\\.)*")
    return f"^{words}$"


def moment_of(text: str | None) -> datetime | None:
    """Parse a moment, in UTC unless it says otherwise. Raises InvalidOption."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(f"{text!r} is no moment such as 2026-08-01T12:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
