"""The overview: figures that follow what happens, and plots of them."""

from __future__ import annotations

from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Page, expect


def test_the_overview_follows_what_happens_without_being_reloaded(
    page: Page, channel: BlockingChannel
) -> None:
    page.goto("/")
    ready = page.locator("dl", has_text="Ready").locator("dd")
    expect(ready).to_have_text("0")
    page.evaluate("window.isSamePage = true")
    page.get_by_label("Refresh").select_option("every 2 s")
    channel.queue_declare("counted")
    for _ in range(3):
        channel.basic_publish("", "counted", b"x")
    expect(ready).to_have_text("3")
    assert page.evaluate("window.isSamePage")


def test_plots_of_rates_depth_memory_and_disk_are_drawn(page: Page) -> None:
    page.goto("/?span=1h")
    expect(page.get_by_role("heading", name="The last 1 hour")).to_be_visible()
    expect(page.locator(".plot canvas")).to_have_count(4)
    legend = page.locator("figure", has_text="Memory, against the watermark")
    expect(legend).to_contain_text("Watermark")


def test_the_overview_has_landmarks_and_a_way_past_the_menu(page: Page) -> None:
    page.goto("/")
    for role in ("banner", "navigation", "main"):
        expect(page.get_by_role(role).first).to_be_visible()  # type: ignore[arg-type]
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
