"""Reports of Spark jobs in a browser: light and dark, on a wide screen and on a telephone's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page

from pyspark_warren.jobs import audit_report, dead_letters_report
from pyspark_warren.jobs.audited import Absent, Audited, Difference, NodeFigures
from pyspark_warren.jobs.dead_letters import DeadLetters, Group
from pyspark_warren.jobs.reports import Report
from pyspark_warren.jobs.telemetry_report import report_of as telemetry_report_of
from pyspark_warren.jobs.windows import Telemetry, Window

START_MS = 1_800_000_000_000
LETTERS_MIN_PX = 8.0
LONG = "a.very.long.routing.key.of.an.order.from.a.country.far.away" * 3
# Boxes of the texts of each plot, on the screen; those that are hidden have none.
TEXTS = """() => [...document.querySelectorAll('svg[role=img]')].map(plot =>
  [...plot.querySelectorAll('text')].map(text => {
    const box = text.getBoundingClientRect()
    return {text: text.textContent, left: box.left, right: box.right, top: box.top,
            bottom: box.bottom}
  }).filter(text => text.right > text.left))"""


def telemetry_report() -> Report:
    windows = []
    for at in range(100):
        wave = 1 + math.sin(at / 9)
        means = {
            name: (wave * size, 1)
            for name, size in (
                ("publish_rate", 900.0), ("confirm_rate", 900.0), ("ack_rate", 700.0),
                ("busy_percent", 50.0), ("loop_cpu_percent", 45.0),
            )
        }  # fmt: skip
        greatest = {
            "backlog": 5_000 * wave, "messages_unacknowledged": 800.0, "stream_records": 1e6 + at,
            "head_message_age_ms": 900 * wave, "connections_in_flow": float(20 < at < 40),
            "memory_used": 3e8, "memory_limit": 1e9, "load": wave, "processors": 2.0,
        }  # fmt: skip
        windows.append(Window(START_MS + at * 10_000, "node@host", "", greatest, {}, means))
    return telemetry_report_of(Telemetry(windows))


def dead_letters() -> Report:
    groups = [
        Group("dead", reason, "orders", "amq.topic", LONG, LONG, f"2026-11-{day} 05:00",
              "1 to 7 days", day, day)
        for reason in ("rejected", "expired") for day in range(10, 14)
    ]  # fmt: skip
    total = sum(group.messages for group in groups)
    return dead_letters_report.report_of(DeadLetters(groups, total, len(groups)), "dead")


def audit() -> Report:
    nodes = {f"warren@node{n}": NodeFigures(2, 1_000, 1, 50_000, 0, 800, 1_000) for n in range(3)}
    difference = Difference("missing", "/", LONG, "h", LONG, dict.fromkeys(nodes, 1))
    absent = Absent("stream", "/", "s", ("warren@node0",), ("warren@node1", "warren@node2"))
    return audit_report.report_of(Audited(nodes, [difference], [absent], ["damage"], ["id"]))


REPORTS = {"telemetry": telemetry_report, "deadletters": dead_letters, "audit": audit}


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> Literal["light", "dark"]:
    return "dark" if request.param == "dark" else "light"


@pytest.fixture(params=[1280, 390])
def screen(
    request: pytest.FixtureRequest, browser: Browser, scheme: Literal["light", "dark"]
) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": request.param, "height": 900}, color_scheme=scheme)
    yield page
    page.close()


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_fits_the_screen_and_its_plots_can_be_read(
    screen: Page, name: str, tmp_path: Path
) -> None:
    asked: list[str] = []
    screen.on("request", lambda request: asked.append(request.url))
    path = tmp_path / "report.html"
    REPORTS[name]().write(str(path))
    screen.goto(path.as_uri())
    assert asked == [path.as_uri()], "a report asks for nothing else"
    beyond = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert screen.evaluate(beyond) == 0
    width = screen.evaluate("document.documentElement.clientWidth")
    plots: list[list[dict[str, Any]]] = screen.evaluate(TEXTS)
    assert plots
    for texts in plots:
        assert [text for text in texts if text["left"] < 0 or text["right"] > width] == []
        assert all(text["bottom"] - text["top"] >= LETTERS_MIN_PX for text in texts)
        assert [(one["text"], other["text"]) for one, other in overlapping(texts)] == []


def overlapping(texts: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for number, one in enumerate(texts):
        for other in texts[number + 1 :]:
            is_beside = one["right"] <= other["left"] or other["right"] <= one["left"]
            # Boxes of text have room above and below the letters.
            room = 0.4 * (one["bottom"] - one["top"])
            is_above = one["bottom"] - room <= other["top"] or other["bottom"] - room <= one["top"]
            if not (is_beside or is_above):
                yield one, other


def test_light_and_dark_have_other_colours(screen: Page, scheme: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    telemetry_report().write(str(path))
    screen.goto(path.as_uri())
    colours = screen.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colours == ("rgb(22, 27, 34)" if scheme == "dark" else "rgb(255, 255, 255)")
