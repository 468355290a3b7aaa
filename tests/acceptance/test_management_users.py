"""Users, permissions and limits over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pika
import pytest

from acceptance.actions import eventually
from acceptance.management_client import Api
from broker_process import Address

# The hash of "test12" with the salt 908DC60A (T160).
HASH_OF_TEST12 = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
NOT_FOUND = (404, "Object Not Found", "Not Found")


@pytest.fixture
def user(api: Api) -> Iterator[str]:
    """A name for a user, who is gone when the test ends."""
    name = f"f user/{uuid.uuid4().hex[:8]}"
    yield name
    api.delete("users", name)


def test_t160_a_user_logs_in_by_a_stored_hash(
    api: Api, vhost: str, user: str, broker: Address
) -> None:
    body = {"password_hash": HASH_OF_TEST12, "tags": "management"}
    assert api.put("users", user, body=body).status == 201
    assert api.as_user(user, "test12").get("whoami").status == 200
    assert api.as_user(user, "test13").get("whoami").status == 401
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    api.must(api.put("permissions", vhost, user, body=everything))
    credentials = pika.PlainCredentials(user, "test12")
    parameters = pika.ConnectionParameters(broker.host, broker.port, vhost, credentials)
    pika.BlockingConnection(parameters).close()


def test_t161_a_user_without_a_tag_is_not_let_in(api: Api, user: str) -> None:
    api.must(api.put("users", user, body={"password": "p", "tags": "impersonator"}))
    refusal = api.as_user(user, "p").get("whoami").refusal
    assert refusal == (401, "not_authorised", "Not management user")


def test_a_user_is_shown_as_it_was_put(api: Api, user: str) -> None:
    assert api.put("users", user, body={"password": "p", "tags": "management, b c"}).status == 201
    assert api.put("users", user, body={"password": "q", "tags": ["z", "a"]}).status == 204
    shown = api.must(api.get("users", user))
    assert shown.pop("password_hash") != ""
    assert shown == {
        "name": user,
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": ["z", "a"],
        "limits": {},
    }
    assert user in [row["name"] for row in api.must(api.get("users"))]
    assert user in [row["name"] for row in api.must(api.get("users", "without-permissions"))]
    assert api.delete("users", user).status == 204
    assert api.get("users", user).refusal == NOT_FOUND
    assert api.delete("users", user).refusal == NOT_FOUND


def test_a_user_without_a_password_cannot_log_in(api: Api, user: str) -> None:
    api.must(api.put("users", user, body={"password": "p", "tags": "management"}))
    api.must(api.put("users", user, body={"tags": "management"}))
    assert api.must(api.get("users", user))["password_hash"] == ""
    assert api.as_user(user, "p").get("whoami").status == 401
    assert api.as_user(user, "").get("whoami").status == 401


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "tags_not_present"),
        ({"password": "p"}, "tags_not_present"),
        (
            {"password": "p", "password_hash": "", "tags": ""},
            "both_password_and_password_hash_are_provided",
        ),
        ({"password_hash": "not base64!", "tags": ""}, ["not_base64", "not base64!"]),
    ],
)
def test_what_cannot_be_a_user_is_refused(
    api: Api, user: str, body: object, reason: object
) -> None:
    assert api.put("users", user, body=body).refusal == (400, "bad_request", reason)


def test_users_are_deleted_many_at_a_time(api: Api) -> None:
    names = [f"f-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    for name in names:
        api.must(api.put("users", name, body={"password": "p", "tags": ""}))
    assert api.post("users", "bulk-delete", body={"users": names}).status == 204
    assert [api.get("users", name).status for name in names] == [404, 404]
    again = api.post("users", "bulk-delete", body={"users": names})
    assert again.refusal == (400, "bad_request", ["no_such_user", names[0]])
    empty = api.post("users", "bulk-delete", body={})
    assert empty.refusal == (400, "bad_request", "[{key_missing,users}]")


def test_permissions_are_set_shown_and_cleared(api: Api, vhost: str, user: str) -> None:
    api.must(api.put("users", user, body={"password": "p", "tags": ""}))
    patterns = {"configure": "^a", "write": "", "read": ".*"}
    row = {"user": user, "vhost": vhost, **patterns}
    assert api.put("permissions", vhost, user, body=patterns).status == 201
    assert api.put("permissions", vhost, user, body=patterns).status == 204
    assert api.must(api.get("permissions", vhost, user)) == row
    assert api.must(api.get("users", user, "permissions")) == [row]
    assert row in api.must(api.get("vhosts", vhost, "permissions"))
    assert row in api.must(api.get("permissions"))
    assert api.delete("permissions", vhost, user).status == 204
    assert api.delete("permissions", vhost, user).refusal == NOT_FOUND
    assert api.get("permissions", vhost, user).refusal == NOT_FOUND


def test_permissions_that_make_no_sense_are_refused(api: Api, vhost: str, user: str) -> None:
    patterns = {"configure": "", "write": "", "read": ""}
    missing = (400, "bad_request", "vhost_or_user_not_found")
    assert api.put("permissions", vhost, user, body=patterns).refusal == missing
    api.must(api.put("users", user, body={"password": "p", "tags": ""}))
    assert api.put("permissions", "f-none", user, body=patterns).refusal == missing
    incomplete = api.put("permissions", vhost, user, body={"configure": "", "write": ""})
    assert incomplete.refusal == (400, "bad_request", "[{key_missing,read}]")
    wrong = api.put("permissions", vhost, user, body={**patterns, "read": "("})
    status, error, reason = wrong.refusal
    assert (status, error, reason[0]) == (400, "bad_request", "invalid_regexp")


def test_topic_permissions_are_set_shown_and_cleared(api: Api, vhost: str, user: str) -> None:
    api.must(api.put("users", user, body={"password": "p", "tags": ""}))
    path = ("topic-permissions", vhost, user)
    rows = [
        {"user": user, "vhost": vhost, "exchange": "amq.topic", "write": "^a", "read": ""},
        {"user": user, "vhost": vhost, "exchange": "t", "write": "", "read": "b$"},
    ]
    assert api.put(*path, body=rows[0]).status == 201
    assert api.put(*path, body=rows[1]).status == 204
    assert api.must(api.get(*path)) == rows
    assert api.must(api.get("users", user, "topic-permissions")) == rows
    assert api.must(api.get("vhosts", vhost, "topic-permissions")) == rows
    assert api.delete(*path, "t").status == 204
    assert api.must(api.get(*path)) == rows[:1]
    assert api.delete(*path).status == 204
    assert api.get(*path).refusal == NOT_FOUND
    incomplete = api.put(*path, body={"write": "", "read": ""})
    assert incomplete.refusal == (400, "bad_request", "[{key_missing,exchange}]")


def test_limits_of_a_virtual_host_are_set_shown_and_cleared(api: Api, vhost: str) -> None:
    path = ("vhost-limits", vhost)
    assert api.put(*path, "max-queues", body={"value": 5}).status == 204
    assert api.put(*path, "max-connections", body={"value": -1}).status == 204
    row = {"vhost": vhost, "value": {"max-queues": 5, "max-connections": -1}}
    assert api.must(api.get(*path)) == [row]
    assert row in api.must(api.get("vhost-limits"))
    assert api.delete(*path, "max-queues").status == 204
    assert api.must(api.get(*path)) == [{"vhost": vhost, "value": {"max-connections": -1}}]
    number = 'Validation failed\n\nmax-queues should be a number, actually was <<"x">>\n'
    refused = api.put(*path, "max-queues", body={"value": "x"})
    assert refused.refusal == (400, "bad_request", number)
    unknown = 'Validation failed\n\nUnrecognised terms [{<<"nope">>,5}] in limits\n'
    assert api.put(*path, "nope", body={"value": 5}).refusal == (400, "bad_request", unknown)
    missing = api.put("vhost-limits", "f-none", "max-queues", body={"value": 5})
    assert missing.refusal == (404, "not_found", "vhost_not_found")
    assert api.get("vhost-limits", "f-none").refusal == NOT_FOUND


def test_limits_of_a_user_are_set_shown_and_cleared(api: Api, user: str) -> None:
    api.must(api.put("users", user, body={"password": "p", "tags": ""}))
    path = ("user-limits", user)
    assert api.put(*path, "max-channels", body={"value": 5}).status == 204
    assert api.must(api.get(*path)) == [{"user": user, "value": {"max-channels": 5}}]
    assert api.must(api.get("users", user))["limits"] == {"max-channels": 5}
    refused = api.put(*path, "nope", body={"value": 5})
    wanted = (400, "bad_request", 'Unrecognised terms [{<<"nope">>,5}] in user-limits')
    assert refused.refusal == wanted
    assert api.delete(*path, "max-channels").status == 204
    assert api.must(api.get(*path)) == []
    missing = api.put("user-limits", "f-none", "max-channels", body={"value": 5})
    assert missing.refusal == (400, "bad_request", ["no_such_user", "f-none"])
    assert api.get("user-limits", "f-none").refusal == NOT_FOUND


def test_who_makes_a_virtual_host_may_use_it(api: Api, user: str) -> None:
    api.must(api.put("users", user, body={"password": "p", "tags": "administrator"}))
    vhost = f"f-{uuid.uuid4().hex[:8]}"
    api.must(api.as_user(user, "p").put("vhosts", vhost))
    permission = api.must(api.get("permissions", vhost, user))
    assert permission == {"user": user, "vhost": vhost, "configure": ".*", "write": ".*",
                          "read": ".*"}  # fmt: skip
    api.delete("vhosts", vhost)


def test_a_virtual_host_is_described_anew(api: Api, vhost: str) -> None:
    api.must(api.put("vhosts", vhost, body={"description": "one", "tags": "a,b"}))
    shown = api.must(api.get("vhosts", vhost))
    assert (shown["description"], shown["tags"]) == ("one", ["a", "b"])
    assert shown["metadata"] == {"description": "one", "tags": ["a", "b"]}
    api.must(api.put("vhosts", vhost, body={"tracing": True}))
    assert api.must(api.get("vhosts", vhost))["tracing"] is True
    api.must(api.put("vhosts", vhost, body={"tracing": False}))
    assert api.must(api.get("vhosts", vhost))["tracing"] is False


def test_a_virtual_host_counts_the_messages_of_its_queues(
    api: Api, vhost: str, broker: Address
) -> None:
    parameters = pika.ConnectionParameters(broker.host, broker.port, vhost, heartbeat=0)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in ("a", "b"):
            channel.queue_declare(queue)
            channel.basic_publish("", queue, b"x", mandatory=True)
        channel.basic_get("a")

        def counts() -> object:
            shown = api.must(api.get("vhosts", vhost))
            names = ("messages", "messages_ready", "messages_unacknowledged")
            return tuple(shown.get(name) for name in names)

        eventually(lambda: counts() == (2, 1, 1), 15)
