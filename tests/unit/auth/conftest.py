"""A real store with the access control that follows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from warren.auth.access import AccessControl
from warren.auth.admin import AccessAdmin
from warren.auth.permissions import Permission
from warren.auth.users import User
from warren.metadata.sqlite import SqliteStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "metadata.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def access() -> AccessControl:
    return AccessControl()


@pytest.fixture
async def admin(store: SqliteStore, access: AccessControl) -> AccessAdmin:
    admin = AccessAdmin(store, access)
    await admin.open()
    return admin


@pytest.fixture
async def alice(admin: AccessAdmin, access: AccessControl) -> User:
    """May configure what begins with c, write to w and read from r, in vhost v alone."""
    await admin.add_user("alice", "secret")
    await admin.add_vhost("v")
    await admin.add_vhost("other")
    await admin.set_permissions(Permission("alice", "v", "^c", "^w", "^r"))
    return access.authenticate("alice", b"secret", peer_is_loopback=False)
