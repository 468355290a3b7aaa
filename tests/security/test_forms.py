"""Forms of the page cost the broker little, whoever sends them and however large they are."""

from __future__ import annotations

import http.client

from acceptance.management_client import Api
from broker_process import BrokerProcess
from security.page_client import ask_page, log_in_to_page

LARGE = 9_900_000


def status_of_large_form(port: int, path: str, start: bytes, **headers: str) -> int:
    """Send a form; the broker may answer, or close the socket, before it has read all of it."""
    try:
        return ask_page(port, "POST", path, start + b"%41" * (LARGE // 3), **headers).status
    except (ConnectionError, http.client.HTTPException):
        return 413


def test_a_large_login_form_is_refused_before_it_is_parsed(broker: BrokerProcess) -> None:
    before_s = broker.cpu_s()
    assert status_of_large_form(broker.http_port, "/login", b"username=") == 413
    assert broker.cpu_s() - before_s < 1.5, "parsing all of it takes 3 s"


def test_a_large_plain_form_of_a_user_is_refused_before_it_is_parsed(broker: BrokerProcess) -> None:
    port = broker.http_port
    cookie = log_in_to_page(port, "guest", "guest").cookie
    before_s = broker.cpu_s()
    assert status_of_large_form(port, "/queues", b"name=", cookie=cookie) == 413
    assert broker.cpu_s() - before_s < 1.5


def test_failed_logins_with_long_names_use_up_no_memory(broker: BrokerProcess) -> None:
    before = broker.resident_bytes()
    for number in range(12):
        status_of_large_form(broker.http_port, "/login", b"username=%d" % number)
    assert broker.resident_bytes() - before < 60_000_000


def test_a_message_of_some_hundred_kilobytes_is_published_from_the_page(
    broker: BrokerProcess, api: Api
) -> None:
    """Where much may be typed the form is multipart, which costs next to nothing to read."""
    api.must(api.put("queues", "/", "filled", body={}))
    port, path = broker.http_port, "/queues/%2F/filled"
    cookie = log_in_to_page(port, "guest", "guest").cookie
    shown = ask_page(port, "GET", path, cookie=cookie)
    assert 'enctype="multipart/form-data"' in shown.text
    fields = {"csrf": shown.token, "payload": "p" * 500_000}
    parts = "".join(
        f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    )
    headers = {"cookie": cookie, "content_type": "multipart/form-data; boundary=edge"}
    form = (parts + "--edge--\r\n").encode()
    assert ask_page(port, "POST", f"{path}/publish", form, **headers).status == 303
    got = api.must(
        api.post(
            "queues", "/", "filled", "get",
            body={"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"},
        )
    )  # fmt: skip
    assert [message["payload_bytes"] for message in got] == [500_000]


def test_only_administrators_upload_files_that_fill_the_memory(
    broker: BrokerProcess, api: Api
) -> None:
    api.must(api.put("users", "viewer", body={"password": "secret", "tags": "management"}))
    head = b'--edge\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
    form = head + b"x" * 12_000_000 + b"\r\n--edge--\r\n"
    found = {}
    for user, password in (("viewer", "secret"), ("guest", "guest")):
        cookie = log_in_to_page(broker.http_port, user, password).cookie
        headers = {"cookie": cookie, "content_type": "multipart/form-data; boundary=edge"}
        answer = ask_page(broker.http_port, "POST", "/admin/definitions", form, **headers)
        found[user] = answer.status
    assert found == {"viewer": 413, "guest": 403}, "the administrator's form lacks its token"
