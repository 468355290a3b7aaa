"""Who gets in, what it is shown, and how it gets out again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from playwright.sync_api import Browser, Page, expect

from acceptance.management_client import Api
from broker_process import Address, BrokerProcess
from browsing import sign_in, visiting
from warren.server.data_directory import PAGE_KEY_FILE


def test_who_is_not_signed_in_gets_there_after_signing_in(visitor: Callable[[], Page]) -> None:
    page = visitor()
    page.goto("/queues")
    page.get_by_label("Username").fill("guest")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("Login failed")
    expect(page.get_by_label("Username")).to_have_value("guest")
    page.get_by_label("Password").fill("guest")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()


def test_the_session_is_hidden_from_scripts_and_ends_with_signing_out(
    visitor: Callable[[], Page],
) -> None:
    """A session of its own: the one that the other tests share is to last."""
    page = visitor()
    sign_in(page, "guest", "guest")
    page.goto("/")
    cookies = [c for c in page.context.cookies() if c["name"].startswith("warren_session")]
    assert [(c["httpOnly"], c["sameSite"]) for c in cookies] == [(True, "Lax")]
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    page.goto("/")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_a_session_survives_a_restart_of_the_broker_and_ends_with_its_user(
    browser: Browser, tmp_path: Path
) -> None:
    """The key of sessions is kept, for the broker alone to read."""
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        api = Api(Address("127.0.0.1", broker.http_port))
        body = {"password": "secret", "tags": "administrator"}
        api.must(api.put("users", "patient", body=body))
        with visiting(browser, broker.http_port) as arrive:
            page = arrive()
            sign_in(page, "patient", "secret")
            broker.restart()
            page.goto("/nodes")
            expect(page.get_by_role("heading", name="Nodes", exact=True)).to_be_visible()
            broker.kill()
            broker.start()
            page.goto("/nodes")
            expect(page.get_by_role("heading", name="Nodes", exact=True)).to_be_visible()
            api.must(api.delete("users", "patient"))
            api.must(api.put("users", "patient", body=body))
            page.goto("/nodes")
            expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        assert (broker.data_dir / PAGE_KEY_FILE).stat().st_mode & 0o777 == 0o600
    finally:
        broker.stop()


def test_a_new_password_ends_the_sessions_of_the_old_one(
    api: Api, visitor: Callable[[], Page]
) -> None:
    body = {"password": "old", "tags": "management"}
    api.must(api.put("users", "forgetful", body=body))
    page = visitor()
    sign_in(page, "forgetful", "old")
    api.must(api.put("users", "forgetful", body={**body, "password": "new"}))
    page.goto("/queues")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_who_is_no_administrator_has_no_link_to_what_is_not_open_to_it(
    api: Api, visitor: Callable[[], Page]
) -> None:
    api.must(api.put("users", "modest", body={"password": "modest", "tags": "management"}))
    page = visitor()
    sign_in(page, "modest", "modest")
    menu = page.get_by_role("navigation", name="Pages")
    expect(menu.get_by_role("link", name="Queues")).to_be_visible()
    expect(menu.get_by_role("link", name="Admin")).to_have_count(0)


def test_a_form_from_elsewhere_changes_nothing(
    visitor: Callable[[], Page], broker: BrokerProcess
) -> None:
    """Neither without the token that is in our forms, nor from another site with it."""
    page = visitor()
    sign_in(page, "guest", "guest")
    page.goto("/")
    url = f"http://127.0.0.1:{broker.http_port}/logout"
    cookie = "; ".join(f"{c['name']}={c['value']}" for c in page.context.cookies())
    token = page.locator("form.who input[name=csrf]").input_value()

    def status(fields: dict[str, str], **headers: str) -> int:
        sent = {"Cookie": cookie, **{n.replace("_", "-"): v for n, v in headers.items()}}
        request = Request(url, urlencode(fields).encode(), sent)
        try:
            with urlopen(request, timeout=60) as answer:
                return int(answer.status)
        except OSError as error:
            return int(getattr(error, "code", 0))

    assert status({}) == 403
    assert status({"csrf": "0" * 64}) == 403
    assert status({"csrf": token}, Origin="http://evil.example") == 403
    assert status({"csrf": token}, Sec_Fetch_Site="cross-site") == 403
    assert status({"csrf": token}) == 200


def test_addresses_of_rabbitmqs_page_lead_to_what_they_lead_to_there(
    visitor: Callable[[], Page], page: Page
) -> None:
    stranger = visitor()
    for address in ("/api", "/api/", "/doc/stats.html"):
        stranger.goto(address)
        expect(stranger.get_by_role("heading", name="The HTTP API")).to_be_visible()
    stranger.goto("/cli")
    expect(stranger.get_by_role("heading", name="The command line")).to_be_visible()
    page.goto("/#/queues")
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()


def test_the_theme_is_the_systems_until_somebody_chooses_another(page: Page) -> None:
    page.goto("/")

    def ground() -> str:
        return str(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))

    page.emulate_media(color_scheme="light")
    light = ground()
    page.emulate_media(color_scheme="dark")
    dark = ground()
    assert light != dark
    page.get_by_role("button", name="Switch between light and dark").click()
    assert ground() == light
    page.reload()
    assert ground() == light
