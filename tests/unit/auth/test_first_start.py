"""The first start makes the defaults, the next one finds everything as it was left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from topology_samples import VHOST
from warren.auth.access import AccessControl
from warren.auth.admin import AccessAdmin, Defaults
from warren.auth.patterns import InvalidPattern
from warren.auth.permissions import Permission, TopicPermission
from warren.auth.users import Vhost
from warren.metadata import keys
from warren.metadata.sqlite import SqliteStore
from warren.metadata.store import MetadataUnusable, Put


async def test_the_first_start_makes_guest_and_its_vhost(
    admin: AccessAdmin, access: AccessControl
) -> None:
    assert [user.name for user in access.directory.users()] == ["guest"]
    assert access.directory.vhosts() == [Vhost(VHOST, "Default virtual host")]
    assert access.directory.permissions() == [Permission("guest", VHOST, ".*", ".*", ".*")]


async def test_what_the_first_start_makes_can_be_chosen(store: SqliteStore) -> None:
    access = AccessControl()
    chosen = Defaults("root", "secret", ("monitoring",), "main", "c", "w", "r")
    await AccessAdmin(store, access, chosen).open()
    assert access.authenticate("root", b"secret", peer_is_loopback=False).tags == ("monitoring",)
    assert [vhost.name for vhost in access.directory.vhosts()] == ["main"]
    assert access.directory.permissions() == [Permission("root", "main", "c", "w", "r")]


async def test_defaults_that_make_no_sense_leave_the_store_as_it_was(store: SqliteStore) -> None:
    with pytest.raises(InvalidPattern):
        await AccessAdmin(store, AccessControl(), Defaults(write="(")).open()
    assert await store.range("") == []


async def test_a_guest_that_was_deleted_stays_deleted(
    admin: AccessAdmin, store: SqliteStore, access: AccessControl
) -> None:
    await admin.delete_user("guest")
    await admin.delete_vhost(VHOST)
    again = AccessControl()
    await AccessAdmin(store, again).open()
    assert again.directory.users() == []
    assert again.directory.vhosts() == []


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    store, access = SqliteStore(tmp_path / "metadata.db"), AccessControl()
    await store.open()
    admin = AccessAdmin(store, access)
    await admin.open()
    await admin.add_user("u", "p", ["monitoring"])
    await admin.set_user_limits("u", {"max-channels": 7})
    await admin.add_vhost("v", "for tests", ["blue"])
    await admin.set_vhost_limits("v", {"max-queues": 9})
    await admin.set_permissions(Permission("u", "v", "a", "b", "c"))
    await admin.set_topic_permissions(TopicPermission("u", "v", "x", "a", "b"))
    await store.close()

    store, again = SqliteStore(tmp_path / "metadata.db"), AccessControl()
    await store.open()
    await AccessAdmin(store, again).open()
    user = again.authenticate("u", b"p", peer_is_loopback=False)
    assert user.tags == ("monitoring",)
    assert user.limits == {"max-channels": 7}
    assert Vhost("v", "for tests", ("blue",)) in again.directory.vhosts()
    assert again.vhost_queues_max("v") == 9
    assert Permission("u", "v", "a", "b", "c") in again.directory.permissions()
    assert again.directory.topic_permissions() == [TopicPermission("u", "v", "x", "a", "b")]
    await store.close()


@pytest.mark.parametrize("value", [b"", b"{}", b'{"layout": 99}', b"\xff"])
async def test_a_record_that_cannot_be_read_stops_the_start(
    admin: AccessAdmin, store: SqliteStore, value: bytes
) -> None:
    key = keys.permission_key(VHOST, "guest")
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    await store.transact([], [Put(key, value)])
    with pytest.raises(MetadataUnusable, match=f"{key}.*backup"):
        await AccessAdmin(store, AccessControl()).open()
