"""Who may call the management API, and what it answers before it looks at anything."""

from __future__ import annotations

from acceptance.management_client import Api


def test_t161_a_call_without_credentials_is_challenged(api: Api) -> None:
    answer = api.call("GET", "/api/whoami", headers={})
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'


def test_t161_wrong_credentials_are_refused(api: Api) -> None:
    answer = api.as_user("guest", "wrong").get("whoami")
    assert answer.refusal == (401, "not_authorized", "Login failed")
    assert "www-authenticate" in answer.headers


def test_credentials_that_cannot_be_read_are_a_bad_request(api: Api) -> None:
    for header in ("Basic !!!", "Basic Z3Vlc3Q=", "Foo bar"):
        answer = api.call("GET", "/api/whoami", headers={"Authorization": header})
        assert answer.status == 400, header


def test_a_caller_is_told_who_it_is(api: Api) -> None:
    assert api.must(api.get("whoami")) == {"name": "guest", "tags": ["administrator"]}


def test_an_address_that_does_not_exist_is_not_found(api: Api) -> None:
    assert api.get("nope").refusal == (404, "Object Not Found", "Not Found")
    assert api.get("vhosts", "nope").refusal == (404, "Object Not Found", "Not Found")


def test_a_method_that_an_address_does_not_know_is_not_allowed(api: Api) -> None:
    answer = api.post("whoami")
    assert (answer.status, answer.headers["allow"]) == (405, "HEAD, GET, OPTIONS")
    options = api.call("OPTIONS", "/api/vhosts/x")
    assert (options.status, options.headers["allow"]) == (200, "HEAD, GET, PUT, DELETE, OPTIONS")


def test_a_body_that_is_no_json_object_is_a_bad_request(api: Api, vhost: str) -> None:
    for raw in (b"{", b"[]", b"5"):
        answer = api.call("PUT", f"/api/vhosts/{vhost}", raw=raw)
        assert answer.refusal == (400, "bad_request", "not_json"), raw
    answer = api.put("vhosts", vhost, body={"tracing": "maybe"})
    assert answer.refusal == (400, "bad_request", ["not_boolean", "maybe"])


def test_a_virtual_host_comes_and_goes(api: Api) -> None:
    assert api.put("vhosts", "f/a b").status == 201
    assert api.put("vhosts", "f/a b").status == 204
    assert api.must(api.get("vhosts", "f/a b"))["name"] == "f/a b"
    assert "f/a b" in [row["name"] for row in api.must(api.get("vhosts"))]
    assert api.delete("vhosts", "f/a b").status == 204
    assert api.get("vhosts", "f/a b").status == 404
