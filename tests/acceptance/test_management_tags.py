"""A table of what each tag may do (9-05 among it): exactly what RabbitMQ allows, and nothing else.

Users have permissions in one virtual host, `own`, and none in `other`. Each row is a request and
the tags that get through; for all others the answer must be 401. What those who get through are
told (201, 404, 400) is not this test's business.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from acceptance.management_client import Answer, Api

TAGS: Final = ("none", "management", "policymaker", "monitoring", "administrator")
ALL: Final = frozenset({"management", "policymaker", "monitoring", "administrator"})
MONITORS: Final = frozenset({"monitoring", "administrator"})
POLICYMAKERS: Final = frozenset({"policymaker", "administrator"})
ADMINISTRATOR: Final = frozenset({"administrator"})

POLICY: Final = {"pattern": "^f-none$", "definition": {"max-length": 5}}
PERMISSION: Final = {"configure": "", "write": "", "read": ""}


@dataclass(frozen=True)
class Row:
    method: str
    path: str
    allowed: frozenset[str]
    body: object = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def everything_at(path: str, allowed: frozenset[str], body: object) -> list[Row]:
    return [
        Row("PUT", path, allowed, body),
        Row("GET", path, allowed),
        Row("DELETE", path, allowed),
    ]


TABLE: Final = [
    Row("GET", "whoami", ALL),
    Row("GET", "extensions", ALL),
    Row("GET", "overview", ALL),
    Row("GET", "cluster-name", ALL),
    Row("GET", "nodes", MONITORS),
    Row("GET", "connections", ALL),
    Row("GET", "channels", ALL),
    Row("GET", "consumers", ALL),
    Row("GET", "feature-flags", ADMINISTRATOR),
    Row("PUT", "feature-flags/quorum_queue/enable", ADMINISTRATOR),
    Row("POST", "rebalance/queues", ADMINISTRATOR),
    Row("DELETE", "reset/no@where", ADMINISTRATOR),
    # Virtual hosts, users and what users may do.
    Row("GET", "vhosts", ALL),
    *everything_at("vhosts/{temporary}", ADMINISTRATOR, {}),
    Row("GET", "vhosts/{own}/permissions", ADMINISTRATOR),
    Row("GET", "vhosts/{own}/topic-permissions", ADMINISTRATOR),
    Row("GET", "vhosts/{own}/connections", ALL),
    Row("GET", "vhosts/{own}/channels", ALL),
    Row("GET", "vhosts/{other}/connections", ADMINISTRATOR),
    Row("GET", "users", ADMINISTRATOR),
    Row("GET", "users/without-permissions", ADMINISTRATOR),
    *everything_at("users/{temporary}", ADMINISTRATOR, {"password": "x", "tags": ""}),
    Row("POST", "users/bulk-delete", ADMINISTRATOR, {"users": []}),
    Row("GET", "users/{me}/permissions", ADMINISTRATOR),
    Row("GET", "users/{me}/topic-permissions", ADMINISTRATOR),
    Row("GET", "permissions", ADMINISTRATOR),
    *everything_at("permissions/{other}/{friend}", ADMINISTRATOR, PERMISSION),
    Row("GET", "topic-permissions", ADMINISTRATOR),
    Row("GET", "topic-permissions/{own}/{friend}", ADMINISTRATOR),
    Row("GET", "vhost-limits", ALL),
    Row("GET", "vhost-limits/{own}", ALL),
    Row("GET", "vhost-limits/{other}", MONITORS),
    Row("PUT", "vhost-limits/{own}/max-queues", ADMINISTRATOR, {"value": 100}),
    Row("DELETE", "vhost-limits/{own}/max-queues", ADMINISTRATOR),
    Row("GET", "user-limits", ALL),
    Row("PUT", "user-limits/{friend}/max-channels", ADMINISTRATOR, {"value": 100}),
    Row("DELETE", "user-limits/{friend}/max-channels", ADMINISTRATOR),
    # What is in virtual hosts: permissions in them decide.
    Row("GET", "exchanges", ALL),
    Row("GET", "exchanges/{own}", ALL),
    Row("GET", "exchanges/{other}", ADMINISTRATOR),
    *everything_at("exchanges/{own}/f-x", ALL, {}),
    Row("GET", "exchanges/{other}/amq.direct", ADMINISTRATOR),
    Row("PUT", "exchanges/{other}/amq.direct", frozenset(), {}),
    Row("GET", "queues", ALL),
    Row("GET", "queues/{own}", ALL),
    Row("GET", "queues/{other}", ADMINISTRATOR),
    *everything_at("queues/{own}/f-q", ALL, {}),
    Row("GET", "queues/{other}/f-there", ADMINISTRATOR),
    Row("DELETE", "queues/{own}/f-nope/contents", ALL),
    # The administrator may look, but has no permission there to act upon.
    Row("DELETE", "queues/{other}/f-there", frozenset()),
    Row("DELETE", "queues/{other}/f-there/contents", frozenset()),
    Row("GET", "bindings", ALL),
    Row("GET", "bindings/{own}", ALL),
    Row("GET", "bindings/{other}", ADMINISTRATOR),
    Row("GET", "bindings/{own}/e/amq.topic/e/amq.direct", ALL),
    Row("POST", "bindings/{own}/e/amq.topic/e/amq.direct", ALL, {}),
    Row("DELETE", "bindings/{own}/e/amq.topic/e/amq.direct/~", ALL),
    Row("POST", "bindings/{other}/e/amq.topic/e/amq.direct", frozenset(), {}),
    # Policies and parameters.
    Row("GET", "policies", ALL),
    Row("GET", "policies/{own}", ALL),
    Row("GET", "policies/{other}", ADMINISTRATOR),
    *everything_at("policies/{own}/f-p", POLICYMAKERS, POLICY),
    *everything_at("policies/{other}/f-p", ADMINISTRATOR, POLICY),
    Row("GET", "operator-policies", ALL),
    Row("GET", "operator-policies/{own}", ALL),
    *everything_at("operator-policies/{own}/f-p", ADMINISTRATOR, POLICY),
    Row("GET", "parameters", POLICYMAKERS),
    Row("GET", "parameters/vhost-limits", POLICYMAKERS),
    Row("GET", "parameters/vhost-limits/{own}", POLICYMAKERS),
    Row("GET", "parameters/vhost-limits/{other}", ADMINISTRATOR),
    Row("GET", "parameters/vhost-limits/{own}/limits", POLICYMAKERS),
    Row("PUT", "parameters/vhost-limits/{own}/limits", POLICYMAKERS, {"value": {}}),
    Row("GET", "global-parameters", POLICYMAKERS),
    *everything_at("global-parameters/f-{me}", POLICYMAKERS, {"value": 1}),
    # Everything at once.
    Row("GET", "definitions", ADMINISTRATOR),
    Row("GET", "definitions/{own}", ADMINISTRATOR),
    Row("POST", "definitions", ADMINISTRATOR, {}),
    Row("POST", "definitions/{own}", ADMINISTRATOR, {}),
    # Health.
    Row("GET", "health/checks/alarms", ALL),
    Row("GET", "health/checks/virtual-hosts", ALL),
    Row("GET", "aliveness-test/{own}", ALL),
    Row("GET", "aliveness-test/{other}", frozenset()),
]


@dataclass(frozen=True)
class Cast:
    """The users, one for each tag, and the places they go to."""

    users: dict[str, Api]
    names: dict[str, str]

    def ask(self, row: Row, tag: str) -> Answer:
        api = self.users[tag]
        path = row.path.format(me=api.user, **self.names)
        return api.call(row.method, f"/api/{path}", row.body)


@pytest.fixture(scope="module")
def cast(api: Api) -> Iterator[Cast]:
    prefix = f"f-{uuid.uuid4().hex[:8]}"
    names = {name: f"{prefix}-{name}" for name in ("own", "other", "temporary", "friend")}
    for vhost in (names["own"], names["other"]):
        api.must(api.put("vhosts", vhost))
    api.must(api.put("queues", names["other"], "f-there", body={}))
    api.must(api.put("users", names["friend"], body={"password": "x", "tags": ""}))
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    users = {}
    for tag in TAGS:
        name = f"{prefix}-{tag}"
        tags = "" if tag == "none" else tag
        api.must(api.put("users", name, body={"password": "secret", "tags": tags}))
        api.must(api.put("permissions", names["own"], name, body=everything))
        users[tag] = api.as_user(name, "secret")
    yield Cast(users, names)
    for user in [*(each.user for each in users.values()), names["friend"]]:
        api.delete("users", user)
    for vhost in (names["own"], names["other"], names["temporary"]):
        api.delete("vhosts", vhost)
    api.delete("users", names["temporary"])


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_each_tag_may_do_exactly_what_rabbitmq_allows(cast: Cast, row: Row) -> None:
    answers = {tag: cast.ask(row, tag) for tag in TAGS}
    assert all(answer.status < 500 for answer in answers.values()), answers
    allowed = {tag for tag, answer in answers.items() if answer.status != 401}
    assert allowed == row.allowed


@pytest.mark.parametrize(
    ("path", "tag", "reason"),
    [
        ("whoami", "none", "Not management user"),
        ("nodes", "management", "Not monitor user"),
        ("users", "monitoring", "Not administrator user"),
        ("queues/{other}", "management", "User not authorised to access virtual host"),
        ("policies/{own}/p", "monitoring", "User not authorised to access object"),
    ],
)
def test_who_may_not_is_told_why(cast: Cast, path: str, tag: str, reason: str) -> None:
    refusal = cast.ask(Row("GET", path, ALL), tag).refusal
    assert refusal == (401, "not_authorised", reason)


def test_lists_show_what_is_in_virtual_hosts_with_permissions(cast: Cast) -> None:
    """`monitoring` sees all virtual hosts, but what is in them only with permissions."""
    own, other = cast.names["own"], cast.names["other"]

    def vhosts(tag: str, path: str, key: str) -> set[str]:
        answer = cast.ask(Row("GET", path, ALL), tag)
        return {row[key] for row in answer.body} & {own, other}

    assert vhosts("management", "vhosts", "name") == {own}
    assert vhosts("policymaker", "vhosts", "name") == {own}
    assert vhosts("monitoring", "vhosts", "name") == {own, other}
    assert vhosts("administrator", "vhosts", "name") == {own, other}
    for tag in ("management", "policymaker", "monitoring"):
        assert vhosts(tag, "exchanges", "vhost") == {own}
    assert vhosts("administrator", "exchanges", "vhost") == {own, other}
