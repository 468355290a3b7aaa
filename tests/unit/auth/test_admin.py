"""Administration: what is changed is in force at once, survives, and takes along what it owns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from topology_samples import VHOST
from warren.auth import admin as admin_module
from warren.auth.access import AccessControl, LoginRefused
from warren.auth.admin import (
    AccessAdmin,
    InvalidCredentials,
    InvalidLimits,
    NoSuchUser,
    NoSuchVhost,
    UserExists,
)
from warren.auth.codec import encode_permission
from warren.auth.patterns import InvalidPattern
from warren.auth.permissions import Permission, TopicPermission
from warren.auth.users import User
from warren.metadata import keys
from warren.metadata.codec import encode_record
from warren.metadata.sqlite import SqliteStore
from warren.metadata.store import Put
from warren.model.records import (
    BindingRecord,
    Destination,
    DestinationKind,
    ExchangeRecord,
    QueueRecord,
)


async def keys_in(store: SqliteStore) -> set[str]:
    return {record.key for record in await store.range("")}


async def put_topology(store: SqliteStore, vhost: str, queues: int = 2) -> None:
    exchange = ExchangeRecord(vhost, "x", "topic")
    changes = [Put(keys.exchange_key(vhost, "x"), encode_record(exchange))]
    for number in range(queues):
        queue = QueueRecord(vhost, f"q{number}")
        binding = BindingRecord(vhost, "x", Destination(DestinationKind.QUEUE, queue.name), "k")
        changes.append(Put(keys.queue_key(vhost, queue.name), encode_record(queue)))
        changes.append(Put(keys.binding_key(binding), encode_record(binding)))
    assert await store.transact([], changes)


# Users.


async def test_a_user_is_added_once(admin: AccessAdmin, access: AccessControl) -> None:
    await admin.add_user("u", "first")
    with pytest.raises(UserExists, match=r'^User "u" already exists$'):
        await admin.add_user("u", "second")
    assert access.authenticate("u", b"first", peer_is_loopback=True)


async def test_a_new_password_replaces_the_old_one(
    admin: AccessAdmin, access: AccessControl
) -> None:
    await admin.add_user("u", "old", ["management"])
    await admin.set_password("u", "new")
    assert access.authenticate("u", b"new", peer_is_loopback=True).tags == ("management",)
    with pytest.raises(LoginRefused):
        access.authenticate("u", b"old", peer_is_loopback=True)
    await admin.clear_password("u")
    with pytest.raises(LoginRefused):
        access.authenticate("u", b"new", peer_is_loopback=True)


async def test_a_hash_nobody_could_use_is_refused(admin: AccessAdmin) -> None:
    with pytest.raises(InvalidCredentials, match="rot13"):
        await admin.put_user(User("u", "AAAA", hashing_algorithm="rot13"))


async def test_changes_to_one_user_at_once_are_all_made(
    admin: AccessAdmin, access: AccessControl
) -> None:
    await admin.add_user("u", "old")
    await asyncio.gather(
        admin.set_tags("u", ["monitoring"]),
        admin.set_password("u", "new"),
        admin.set_user_limits("u", {"max-channels": 1}),
        admin.set_permissions(Permission("u", VHOST, "a", "b", "c")),
    )
    user = access.authenticate("u", b"new", peer_is_loopback=True)
    assert user.tags == ("monitoring",)
    assert user.limits == {"max-channels": 1}
    assert access.directory.permission("u", VHOST) is not None


async def test_what_a_user_owns_goes_with_it(
    admin: AccessAdmin, store: SqliteStore, access: AccessControl
) -> None:
    before = await keys_in(store)
    await admin.add_user("u", "p")
    await admin.set_permissions(Permission("u", VHOST, "", "", ""))
    await admin.set_topic_permissions(TopicPermission("u", VHOST, "x", "", ""))
    await admin.set_user_limits("u", {"max-channels": 1})
    assert len(await keys_in(store)) == len(before) + 4
    await admin.delete_user("u")
    assert await keys_in(store) == before
    assert access.user_channels_max("u") is None


@pytest.mark.parametrize("how", ["added", "imported"])
async def test_a_user_made_anew_inherits_nothing(
    admin: AccessAdmin, store: SqliteStore, access: AccessControl, how: str
) -> None:
    """Not even what a crash in the middle of deleting it has left behind."""
    left = Permission("u", VHOST, ".*", ".*", ".*")
    await store.transact([], [Put(keys.permission_key(VHOST, "u"), encode_permission(left))])
    assert access.directory.permission("u", VHOST) is not None
    await (admin.add_user("u", "p") if how == "added" else admin.put_user(User("u")))
    assert access.directory.permission("u", VHOST) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda admin: admin.delete_user("nobody"),
        lambda admin: admin.set_password("nobody", "x"),
        lambda admin: admin.set_tags("nobody", []),
        lambda admin: admin.set_user_limits("nobody", {}),
        lambda admin: admin.set_permissions(Permission("nobody", VHOST, "", "", "")),
        lambda admin: admin.clear_permissions("nobody", VHOST),
        lambda admin: admin.set_topic_permissions(TopicPermission("nobody", VHOST, "x", "", "")),
        lambda admin: admin.clear_topic_permissions("nobody", VHOST),
    ],
)
async def test_a_user_who_is_not_there_is_named(
    admin: AccessAdmin, change: Callable[[AccessAdmin], Awaitable[None]]
) -> None:
    with pytest.raises(NoSuchUser, match=r'^User "nobody" does not exist$'):
        await change(admin)


@pytest.mark.parametrize(
    "change",
    [
        lambda admin: admin.delete_vhost("nope"),
        lambda admin: admin.set_vhost_limits("nope", {}),
        lambda admin: admin.set_permissions(Permission("guest", "nope", "", "", "")),
        lambda admin: admin.clear_permissions("guest", "nope"),
        lambda admin: admin.set_topic_permissions(TopicPermission("guest", "nope", "x", "", "")),
    ],
)
async def test_a_vhost_that_is_not_there_is_named(
    admin: AccessAdmin, change: Callable[[AccessAdmin], Awaitable[None]]
) -> None:
    with pytest.raises(NoSuchVhost, match=r"^Virtual host 'nope' does not exist$"):
        await change(admin)


# Virtual hosts.


async def test_adding_a_vhost_that_is_there_changes_nothing(
    admin: AccessAdmin, store: SqliteStore
) -> None:
    await put_topology(store, VHOST)
    before = await store.range("")
    await admin.add_vhost(VHOST, "another description")
    assert await store.range("") == before


async def test_what_a_vhost_owns_goes_with_it_and_nothing_else(
    admin: AccessAdmin, store: SqliteStore
) -> None:
    await put_topology(store, VHOST)
    before = await keys_in(store)
    await admin.add_vhost("v")
    await admin.set_permissions(Permission("guest", "v", "", "", ""))
    await admin.set_topic_permissions(TopicPermission("guest", "v", "x", "", ""))
    await admin.set_vhost_limits("v", {"max-queues": 1})
    await put_topology(store, "v")
    await admin.delete_vhost("v")
    assert await keys_in(store) == before


async def test_a_vhost_larger_than_a_transaction_goes_too(
    admin: AccessAdmin, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_module, "OPERATIONS_AT_ONCE", 20)
    before = await keys_in(store)
    await admin.add_vhost("v")
    await admin.set_permissions(Permission("guest", "v", ".*", ".*", ".*"))
    await put_topology(store, "v", queues=50)
    steps: list[set[str]] = []
    store.watch(lambda changes: steps.append({change.key for change in changes}))
    await admin.delete_vhost("v")
    assert await keys_in(store) == before
    assert len(steps) > 3
    assert {keys.vhost_key("v"), keys.permission_key("v", "guest")} < steps[0], "access goes first"


async def test_a_vhost_made_anew_inherits_nothing(
    admin: AccessAdmin, store: SqliteStore, access: AccessControl
) -> None:
    """Not even what a crash in the middle of deleting it has left behind."""
    await put_topology(store, "v")
    left = Permission("guest", "v", ".*", ".*", ".*")
    await store.transact([], [Put(keys.permission_key("v", "guest"), encode_permission(left))])
    await admin.add_vhost("v")
    assert access.directory.permission("guest", "v") is None
    assert await store.range("queue/") == []


async def test_nothing_slips_in_while_its_vhost_goes(
    admin: AccessAdmin, store: SqliteStore, access: AccessControl
) -> None:
    """Those before and after the deletion are decided while the vhost is still there."""
    before = await keys_in(store)
    await admin.add_vhost("v")
    results = await asyncio.gather(
        admin.set_permissions(Permission("guest", "v", ".*", ".*", ".*")),
        admin.set_vhost_limits("v", {"max-queues": 1}),
        admin.delete_vhost("v"),
        admin.set_permissions(Permission("guest", "v", ".*", ".*", ".*")),
        admin.set_vhost_limits("v", {"max-queues": 2}),
        return_exceptions=True,
    )
    assert results[:3] == [None] * 3
    assert [type(result) for result in results[3:]] == [NoSuchVhost] * 2
    assert await keys_in(store) == before
    assert access.directory.permission("guest", "v") is None


async def test_nothing_slips_in_while_its_user_goes(admin: AccessAdmin, store: SqliteStore) -> None:
    before = await keys_in(store)
    await admin.add_user("u", "p")
    results = await asyncio.gather(
        admin.set_permissions(Permission("u", VHOST, ".*", ".*", ".*")),
        admin.set_topic_permissions(TopicPermission("u", VHOST, "x", "", "")),
        admin.set_user_limits("u", {"max-channels": 1}),
        admin.delete_user("u"),
        admin.set_permissions(Permission("u", VHOST, ".*", ".*", ".*")),
        admin.set_password("u", "new"),
        return_exceptions=True,
    )
    assert results[:4] == [None] * 4
    assert [type(result) for result in results[4:]] == [NoSuchUser] * 2
    assert await keys_in(store) == before


# Patterns and limits.


@pytest.mark.parametrize("place", ["configure", "write", "read"])
async def test_an_invalid_pattern_is_refused_when_it_is_set(
    admin: AccessAdmin, access: AccessControl, place: str
) -> None:
    patterns = {"configure": ".*", "write": ".*", "read": ".*"} | {place: "("}
    with pytest.raises(InvalidPattern, match=r"^regular expression '\(' is invalid"):
        await admin.set_permissions(Permission("guest", VHOST, **patterns))
    assert access.directory.permissions() == [Permission("guest", VHOST, ".*", ".*", ".*")]
    del patterns["configure"]
    if place != "configure":
        with pytest.raises(InvalidPattern):
            await admin.set_topic_permissions(TopicPermission("guest", VHOST, "x", **patterns))


async def test_topic_permissions_are_cleared_for_one_exchange_or_all(
    admin: AccessAdmin, access: AccessControl
) -> None:
    await admin.add_user("other", "p")
    for exchange in ("x", "y", "z"):
        await admin.set_topic_permissions(TopicPermission("guest", VHOST, exchange, "", ""))
    kept = TopicPermission("other", VHOST, "x", "", "")
    await admin.set_topic_permissions(kept)
    await admin.clear_topic_permissions("guest", VHOST, "x")
    assert {
        row.exchange for row in access.directory.topic_permissions() if row.user == "guest"
    } == {
        "y",
        "z",
    }
    await admin.clear_topic_permissions("guest", VHOST)
    assert access.directory.topic_permissions() == [kept]


async def test_limits_are_numbers_we_know(admin: AccessAdmin, access: AccessControl) -> None:
    with pytest.raises(InvalidLimits, match=r'^Unrecognised terms \[{<<"foo">>,1}\] in limits$'):
        await admin.set_vhost_limits(VHOST, {"foo": 1})
    with pytest.raises(InvalidLimits, match=r"in user-limits$"):
        await admin.set_user_limits("guest", {"max-queues": 1})
    for value in ("a", True, 1.5, None):
        with pytest.raises(InvalidLimits, match=r"^max-queues should be a number, actually was"):
            await admin.set_vhost_limits(VHOST, {"max-queues": value})  # type: ignore[dict-item]
    await admin.set_vhost_limits(VHOST, {"max-queues": 5})
    await admin.set_vhost_limits(VHOST, {"max-connections": 6})
    assert access.vhost_queues_max(VHOST) is None, "they are set as a whole"
    assert access.vhost_connections_max(VHOST) == 6
    await admin.set_vhost_limits(VHOST, {})
    assert access.vhost_connections_max(VHOST) is None
