"""Report of dead letters as a page: when they died of what, where from, and how long ago."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pyspark_warren.jobs.plots import bars_across, stacked_bars
from pyspark_warren.jobs.reports import Report

if TYPE_CHECKING:
    from pyspark_warren.jobs.dead_letters import DeadLetters

GROUPS_SHOWN: Final = 200
BARS_MAX: Final = 100
UNKNOWN: Final = "-"
HOUR_PATTERN: Final = "%Y-%m-%d %H:00"
_STEPS: Final = (
    (timedelta(hours=1), HOUR_PATTERN, "hour"),
    (timedelta(days=1), "%Y-%m-%d", "day"),
    (timedelta(days=7), "%Y-%m-%d", "week"),
    (timedelta(days=30), "%Y-%m-%d", "30 days"),
)
# Ages in seconds that are less than that.
AGES: Final = (
    (60, "under a minute"), (600, "1 to 10 minutes"), (3_600, "10 to 60 minutes"),
    (21_600, "1 to 6 hours"), (86_400, "6 to 24 hours"), (604_800, "1 to 7 days"),
    (2_592_000, "7 to 30 days"),
)  # fmt: skip
OLDEST: Final = "over 30 days"


def report_of(found: DeadLetters, queues: str) -> Report:
    report = Report(f"Dead letters in {queues}")
    report.text(f"{found.messages:,} messages, in {found.group_count:,} groups.")
    if found.left_out:
        report.text(
            f"{found.left_out:,} messages of the smallest groups are not in what follows.",
            "verdict",
        )
    reasons = [reason for (reason,), _ in found.by("reason").most_common()]
    title, labels, series = over_time(found, reasons)
    report.plot(title, stacked_bars(labels, series))
    report.plot(
        "By age: the time since their latest death", bars_across(_ages(found), is_sorted=True)
    )
    for title, name in (
        ("By reason of their first death", "reason"),
        ("By the queue they first died in", "origin"),
        ("By routing key", "routing_key"),
        ("By error", "error"),
    ):
        report.plot(title, bars_across({key[0]: float(n) for key, n in found.by(name).items()}))
    report.heading("Groups")
    names = ("queue", "reason", "origin", "exchange", "routing_key", "error")
    counted = found.by(*names).most_common()
    report.table(
        [*(name.replace("_", " ") for name in names), "messages"],
        [[*key, count] for key, count in counted[:GROUPS_SHOWN]],
    )
    if len(counted) > GROUPS_SHOWN:
        report.text(f"The largest {GROUPS_SHOWN} of {len(counted):,}.", "nothing")
    return report


def over_time(
    found: DeadLetters, reasons: list[str]
) -> tuple[str, list[str], dict[str, list[float]]]:
    """Return a title, the beginnings of equal spans of time, and the messages of each reason.

    Spans are hours, or days and more where there would be too many. A span in which nothing died
    is there, too; those of which nobody knows when they died come last.
    """
    counted = found.by("reason", "hour")
    hours = sorted({hour for _, hour in counted if hour != UNKNOWN})
    moments = [datetime.strptime(hour, HOUR_PATTERN).replace(tzinfo=UTC) for hour in hours]
    step, pattern, name = _step(moments)
    first = _floor(moments[0], step) if moments else datetime.now(UTC)
    count = (moments[-1] - first) // step + 1 if moments else 0
    labels = [(first + at * step).strftime(pattern) for at in range(count)]
    sums: Counter[tuple[str, int]] = Counter()
    for (reason, hour), messages in counted.items():
        at = count
        if hour != UNKNOWN:
            moment = datetime.strptime(hour, HOUR_PATTERN).replace(tzinfo=UTC)
            at = (moment - first) // step
        sums[reason, at] += messages
    if any(at == count for _, at in sums):
        labels.append(UNKNOWN)
    series = {reason: [float(sums[reason, at]) for at in range(len(labels))] for reason in reasons}
    title = f"By reason of their first death and {name} (UTC) of their latest"
    return title, labels, series


def _step(moments: list[datetime]) -> tuple[timedelta, str, str]:
    """Return the smallest span of which there are not too many."""
    if moments:
        for step in _STEPS:
            if (moments[-1] - moments[0]) / step[0] < BARS_MAX:
                return step
        return _STEPS[-1]
    return _STEPS[0]


def _floor(moment: datetime, step: timedelta) -> datetime:
    return moment if step < timedelta(days=1) else moment.replace(hour=0)


def _ages(found: DeadLetters) -> dict[str, float]:
    counted = found.by("age")
    names = [name for _, name in AGES] + [OLDEST, UNKNOWN]
    shown = {name: float(counted[name,]) for name in names}
    if not shown[UNKNOWN]:
        del shown[UNKNOWN]
    return shown if any(shown.values()) else {}
