"""Definitions: RabbitMQ's own file goes in as it is, and comes out equal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from acceptance.management_client import Api
from broker_process import Address, BrokerProcess

# Exported by a RabbitMQ 3.10.8 that had one of everything in it.
RABBITMQ_FILE: Final = Path(__file__).parent / "definitions" / "rabbitmq-3.10.8.json"


@pytest.fixture(scope="module")
def own_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A broker whose users and virtual hosts nobody else looks at."""
    process = BrokerProcess(tmp_path_factory.mktemp("defined"))
    process.start()
    yield Api(Address("127.0.0.1", process.http_port))
    process.stop()


@pytest.fixture(scope="module")
def rabbitmq_file() -> Any:
    return json.loads(RABBITMQ_FILE.read_text())


def in_order(definitions: Any) -> Any:
    """A definitions file is a set of things: their order means nothing."""
    return {
        name: sorted(value, key=lambda item: json.dumps(item, sort_keys=True))
        if isinstance(value, list)
        else value
        for name, value in definitions.items()
    }


def test_t167_a_file_of_rabbitmqs_goes_in_and_comes_out_equal(
    own_api: Api, rabbitmq_file: Any
) -> None:
    assert own_api.post("definitions", body=rabbitmq_file).status == 204
    assert in_order(own_api.must(own_api.get("definitions"))) == in_order(rabbitmq_file)
    # Once more: what is there already is left alone.
    assert own_api.post("definitions", body=rabbitmq_file).status == 204
    assert in_order(own_api.must(own_api.get("definitions"))) == in_order(rabbitmq_file)


def test_imported_users_log_in_with_their_old_passwords(own_api: Api, rabbitmq_file: Any) -> None:
    own_api.must(own_api.post("definitions", body=rabbitmq_file))
    assert own_api.as_user("anna", "anna's").get("whoami").status == 200
    assert own_api.as_user("test12", "test12").get("whoami").body["tags"] == ["management"]
    for name in ("sha512", "md5"):
        answer = own_api.as_user(name, "secret").get("whoami")
        assert answer.refusal == (401, "not_authorised", "Not management user")
    assert own_api.as_user("nobody", "").get("whoami").status == 401


def test_t167_definitions_survive_a_wipe(own_api: Api, rabbitmq_file: Any) -> None:
    own_api.must(own_api.post("definitions", body=rabbitmq_file))
    before = own_api.must(own_api.get("definitions"))
    for vhost in before["vhosts"]:
        if vhost["name"] != "/":
            own_api.must(own_api.delete("vhosts", vhost["name"]))
    for user in before["users"]:
        if user["name"] != "guest":
            own_api.must(own_api.delete("users", user["name"]))
    wiped = own_api.must(own_api.get("definitions"))
    assert wiped["queues"] == wiped["policies"] == wiped["parameters"] == []
    own_api.must(own_api.post("definitions", body=before))
    assert in_order(own_api.must(own_api.get("definitions"))) == in_order(before)


def test_the_definitions_of_one_virtual_host_go_into_another(
    own_api: Api, rabbitmq_file: Any
) -> None:
    own_api.must(own_api.post("definitions", body=rabbitmq_file))
    exported = own_api.must(own_api.get("definitions", "shop"))
    assert set(exported) == {
        "rabbit_version", "parameters", "policies", "queues", "exchanges", "bindings",
    }  # fmt: skip
    own_api.must(own_api.put("vhosts", "copy"))
    own_api.must(own_api.post("definitions", "copy", body=exported))
    copied = own_api.must(own_api.get("definitions", "copy"))
    for section in ("queues", "exchanges", "bindings"):
        assert in_order({"": copied[section]}) == in_order({"": exported[section]})
    moved = [{**policy, "vhost": "copy"} for policy in exported["policies"]]
    assert in_order({"": copied["policies"]}) == in_order({"": moved})
    own_api.must(own_api.delete("vhosts", "copy"))


def test_what_exists_is_left_as_it_is(api: Api, vhost: str) -> None:
    api.must(api.put("queues", vhost, "q", body={"durable": True}))
    other = {"name": "q", "vhost": vhost, "durable": False, "auto_delete": False, "arguments": {}}
    assert api.post("definitions", body={"queues": [other]}).status == 204
    assert api.must(api.get("queues", vhost, "q"))["durable"] is True


def queue(vhost: str, name: str, **arguments: object) -> dict[str, object]:
    return {
        "name": name,
        "vhost": vhost,
        "durable": True,
        "auto_delete": False,
        "arguments": arguments,
    }


def test_reserved_names_and_bindings_to_nothing_are_passed_over(api: Api, vhost: str) -> None:
    binding = {
        "source": "nope", "vhost": vhost, "destination": "q", "destination_type": "queue",
        "routing_key": "", "arguments": {},
    }  # fmt: skip
    exchange = {"name": "amq.new", "vhost": vhost, "type": "direct", "durable": True,
                "auto_delete": False, "arguments": {}}  # fmt: skip
    body = {
        "queues": [queue(vhost, "amq.q"), queue(vhost, "q")],
        "bindings": [binding],
        "exchanges": [exchange],
        "unknown_section": [1, 2],
    }
    assert api.post("definitions", body=body).status == 204
    assert [q["name"] for q in api.must(api.get("queues", vhost))] == ["q"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"users": [{"name": "f-u"}]}, "tags_not_present"),
        ({"queues": [queue("f-none", "q")]}, ["no_such_vhost", "f-none"]),
        (
            {"permissions": [
                {"user": "f-no", "vhost": "/", "configure": "", "write": "", "read": ""}
            ]},
            ["no_such_user", "f-no"],
        ),
        (
            {"policies": [{"name": "p", "vhost": "/", "pattern": "(",
                           "definition": {"max-length": 1}}]},
            ("Validation failed\n\npattern should be regular expression but is invalid: "
            '{"missing )",1}\n (//p)'),
        ),
        (
            {"parameters": [{"name": "n", "vhost": "/", "component": "nope", "value": {}}]},
            "Validation failed\n\ncomponent nope not found\n (//nope/n)",
        ),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_is_refused_with_a_reason(
    api: Api, body: object, reason: object
) -> None:
    assert api.post("definitions", body=body).refusal == (400, "bad_request", reason)


def test_a_file_that_is_no_json_is_refused(api: Api) -> None:
    for raw in (b"{", b"[]"):
        answer = api.call("POST", "/api/definitions", raw=raw)
        assert answer.refusal == (400, "bad_request", "failed_to_parse_json")


def test_an_entry_that_is_not_utf_8_is_a_bad_request(api: Api) -> None:
    raw = b'{"users": [{"name": "u", "tag\x93": "management"}]}'
    answer = api.call("POST", "/api/definitions", raw=raw)
    reason = "failed_to_parse_json: an entry of users cannot be decoded"
    assert answer.refusal == (400, "bad_request", reason)


def test_a_virtual_host_that_has_no_room_for_all_queues_gets_none(api: Api, vhost: str) -> None:
    api.must(api.put("vhost-limits", vhost, "max-queues", body={"value": 1}))
    body = {"queues": [queue(vhost, "one"), queue(vhost, "two")]}
    answer = api.post("definitions", vhost, body=body)
    assert (answer.status, answer.body["reason"]) == (
        400,
        (
            f'Adding 2 queue(s) to virtual host "{vhost}" would exceed the limit of 1 queue(s).\n\n'
            "This virtual host currently has 0 queue(s) defined.\n\nImport aborted!"
        ),
    )
    assert api.must(api.get("queues", vhost)) == []


def test_a_definitions_file_comes_as_an_upload_too(api: Api, vhost: str) -> None:
    body = json.dumps({"queues": [queue(vhost, "uploaded")]})
    form = (
        '--limit\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\n'
        f"Content-Type: application/json\r\n\r\n{body}\r\n--limit--\r\n"
    )
    answer = api.call(
        "POST", "/api/definitions", raw=form.encode(),
        headers={**api.credentials, "Content-Type": "multipart/form-data; boundary=limit"},
    )  # fmt: skip
    assert answer.status == 204
    assert [q["name"] for q in api.must(api.get("queues", vhost))] == ["uploaded"]


def test_a_file_of_an_older_rabbitmq_goes_in(own_api: Api) -> None:
    """3.8 wrote tags as one string, and no limits; 3.5 hashed passwords with MD5 unsaid."""
    body = {
        "rabbit_version": "3.5.8",
        "users": [{"name": "old", "password_hash": "c2FsdNQqD3Qv/Bvk4cwIRcJCnJc=",
                   "tags": "management,administrator"}],
        "vhosts": [{"name": "older"}],
        "queues": [queue("older", "q")],
    }  # fmt: skip
    assert own_api.post("definitions", body=body).status == 204
    answer = own_api.as_user("old", "secret").get("whoami")
    assert answer.body == {"name": "old", "tags": ["management", "administrator"]}


def test_a_file_of_a_newer_rabbitmq_goes_in(own_api: Api) -> None:
    """3.11 and later say more of virtual hosts, and of queues their type."""
    body = {
        "rabbitmq_version": "3.13.7",
        "original_cluster_name": "c",
        "users": [],
        "vhosts": [{"name": "newer", "description": "text", "tags": ["a"], "limits": [],
                    "default_queue_type": "classic",
                    "metadata": {"description": "text", "tags": ["a"],
                                 "default_queue_type": "classic"}}],
        "queues": [{**queue("newer", "q", **{"x-queue-type": "classic"}), "type": "classic"}],
        "global_parameters": [{"name": "cluster_tags", "value": []}],
    }  # fmt: skip
    assert own_api.post("definitions", body=body).status == 204
    shown = own_api.must(own_api.get("vhosts", "newer"))
    assert (shown["description"], shown["tags"]) == ("text", ["a"])
