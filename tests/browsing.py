"""A real browser, and somebody who signs in to a management page with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect, sync_playwright

# A machine may be slow, and busy with other things: this is not about how fast anything is.
PATIENCE_MS = 60_000
VIEW = {"width": 1440, "height": 1000}

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's, or else the one that came with Playwright. Ended before other tests need a loop."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@contextmanager
def visiting(browser: Browser, http_port: int) -> Iterator[Callable[..., Page]]:
    """Somebody who is not signed in yet. What a page's scripts trip over fails the test."""
    contexts, faults = [], list[str]()

    def arrive(state: StorageState | None = None) -> Page:
        base_url = f"http://127.0.0.1:{http_port}"
        context = browser.new_context(base_url=base_url, viewport=VIEW, storage_state=state)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        return page

    yield arrive
    for context in contexts:
        context.close()
    assert faults == []


def sign_in(page: Page, user: str, password: str) -> None:
    page.goto("/login")
    page.get_by_label("Username").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
