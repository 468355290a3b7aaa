"""Users, permissions, virtual hosts, limits, definitions."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Page, expect

from acceptance.management_client import Api
from broker_process import BrokerProcess


def test_a_user_is_made_allowed_limited_and_deleted(
    page: Page, api: Api, broker: BrokerProcess
) -> None:
    page.goto("/admin")
    page.get_by_text("Add or change a user").click()
    users = page.locator("#users")
    users.get_by_label("Name", exact=True).fill("paul")
    users.get_by_label("Password", exact=True).fill("not to be seen")
    users.get_by_label("monitoring").check()
    users.get_by_role("button", name="Set user").click()
    expect(page.get_by_text("User “paul” is set.")).to_be_visible()
    assert api.as_user("paul", "not to be seen").get("whoami").body["tags"] == ["monitoring"]

    page.get_by_text("Set permissions").first.click()
    permissions = page.locator("#permissions")
    permissions.get_by_label("User").select_option("paul")
    permissions.get_by_label("Configure").fill("^paul")
    permissions.get_by_role("button", name="Set permissions").click()
    expect(permissions.get_by_role("row", name="paul")).to_contain_text("^paul")

    limits = page.locator("#limits .card").last
    limits.get_by_label("Which").select_option("paul")
    limits.get_by_label("At most").fill("12")
    limits.get_by_role("button", name="Set limit").click()
    expect(users.get_by_role("row", name="paul")).to_contain_text("max-connections 12")

    users.get_by_role("row", name="paul").get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Yes, do it").click()
    expect(page.get_by_text("User “paul” is gone.")).to_be_visible()
    assert api.get("users", "paul").status == 404

    log = broker.log()
    for change in ("PUT /api/users/paul", "PUT /api/permissions", "DELETE /api/users/paul"):
        assert any("admin change" in line and change in line for line in log.splitlines()), change
    assert "not to be seen" not in log


def test_no_page_shows_what_a_password_was_made_into(page: Page, api: Api) -> None:
    password_hash = api.must(api.get("users", "guest"))["password_hash"]
    page.goto("/admin")
    assert password_hash not in page.content()


def test_a_virtual_host_is_made_and_deleted(page: Page, api: Api) -> None:
    page.goto("/admin")
    page.get_by_text("Add or describe a virtual host").click()
    vhosts = page.locator("#vhosts")
    vhosts.get_by_label("Name", exact=True).fill("a/new one")
    vhosts.get_by_label("Description").fill("for trying out")
    vhosts.get_by_role("button", name="Set virtual host").click()
    expect(vhosts.get_by_role("row", name="a/new one")).to_contain_text("for trying out")
    assert api.get("vhosts", "a/new one").status == 200
    vhosts.get_by_role("row", name="a/new one").get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Yes, do it").click()
    expect(page.get_by_text("Virtual host “a/new one” is gone.")).to_be_visible()
    assert api.get("vhosts", "a/new one").status == 404


def test_definitions_go_out_and_come_in(page: Page, api: Api, tmp_path: Path) -> None:
    api.must(api.put("queues", "/", "defined", body={"durable": True}))
    page.goto("/admin")
    with page.expect_download() as started:
        page.get_by_role("link", name="Download definitions").click()
    assert started.value.suggested_filename == "warren-definitions.json"
    file = tmp_path / "definitions.json"
    started.value.save_as(file)
    definitions = json.loads(file.read_text())
    assert "defined" in [queue["name"] for queue in definitions["queues"]]

    api.must(api.delete("queues", "/", "defined"))
    page.get_by_label("File").set_input_files(file)
    page.get_by_role("button", name="Import definitions").click()
    expect(page.get_by_text("The definitions were imported.")).to_be_in_viewport(ratio=1)
    assert api.get("queues", "/", "defined").status == 200
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    page.get_by_label("File").set_input_files(broken)
    page.get_by_role("button", name="Import definitions").click()
    expect(page.get_by_role("alert")).to_be_visible()
