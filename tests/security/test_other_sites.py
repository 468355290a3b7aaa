"""Pages of other sites cannot use the API with a password that a browser remembers."""

from __future__ import annotations

import pytest

from acceptance.management_client import Answer, Api

EVIL = {"users": [{"name": "evil", "password": "evil", "tags": "administrator"}]}
FOREIGN = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://[bad"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


def call(api: Api, method: str, path: str, headers: dict[str, str], body: object = None) -> Answer:
    sent = {**api.credentials, "Content-Type": "text/plain", **headers}
    return api.call(method, path, body, headers=sent)


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/definitions"),
        ("PUT", "/api/vhosts/evil"),
        ("DELETE", "/api/users/guest"),
    ],
)
def test_changes_asked_for_by_pages_of_other_sites_are_refused(
    api: Api, method: str, path: str, headers: dict[str, str]
) -> None:
    answer = call(api, method, path, headers, EVIL)
    assert (answer.status, answer.body["error"]) == (403, "forbidden")
    assert "evil" not in [user["name"] for user in api.must(api.get("users"))]


def test_our_own_pages_and_programs_are_served(api: Api) -> None:
    host, port = api.address
    own = {"Origin": f"http://{host}:{port}", "Sec-Fetch-Site": "same-origin"}
    assert call(api, "PUT", "/api/vhosts/own", own).status == 201
    assert call(api, "DELETE", "/api/vhosts/own", {}).status == 204
    assert call(api, "GET", "/api/whoami", {"Sec-Fetch-Site": "cross-site"}).status == 200


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("http://evil.example/", 400),
        ("//evil.example/", 400),
        ("/\\evil.example/", 400),
        ("javascript:alert(1)", 400),
        ("../#/import-succeeded", 303),
        ("/admin", 303),
    ],
)
def test_an_upload_leads_to_pages_of_ours_only(api: Api, address: str, status: int) -> None:
    form = "".join(
        f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in (("file", "{}"), ("redirect", address))
    )
    answer = api.call(
        "POST", "/api/definitions", raw=f"{form}--edge--\r\n".encode(),
        headers={**api.credentials, "Content-Type": "multipart/form-data; boundary=edge"},
    )  # fmt: skip
    assert answer.status == status
    assert answer.headers.get("location", "") in ("", address)
