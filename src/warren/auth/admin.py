"""Changing who may do what: every change is a transaction, and is in force when it returns.

Nothing here writes to memory: `AccessControl` hears of a change from the store's watch, before the
method that made it returns. Transactions check what they were decided upon (the user is there, the
vhost is the same), and a failed check means that somebody else was quicker: look again.

What belongs to a user or a vhost goes with it in the same transaction. But a vhost may own more
than one transaction holds, and others may add to it while its deletion is on the way; so what is
left is swept once the owner is gone, and, for a crash in between, once more before another one of
that name is made. A new user never inherits the permissions of an old one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from warren.auth.access import AccessControl
from warren.auth.codec import (
    UnreadableAccessRecord,
    decode_user,
    decode_vhost,
    encode_limits,
    encode_permission,
    encode_topic_permission,
    encode_user,
    encode_vhost,
)
from warren.auth.directory import ACCESS_KINDS
from warren.auth.passwords import ALGORITHMS, SHA256, hash_password
from warren.auth.patterns import require_usable
from warren.auth.permissions import Permission, TopicPermission
from warren.auth.users import ADMINISTRATOR, USER_LIMITS, VHOST_LIMITS, User, Vhost
from warren.metadata import keys
from warren.metadata.keys import KeyKind
from warren.metadata.store import (
    OPERATIONS_AT_ONCE,
    Change,
    Check,
    Delete,
    MetadataStore,
    MetadataUnavailable,
    MetadataUnusable,
    Operation,
    Put,
    Record,
)

# How often somebody else may be quicker before we give up.
ATTEMPTS_MAX: Final = 32

# What a vhost owns, in the order in which it goes: nothing loses what it stands on.
_OWNED_BY_VHOST: Final = (
    KeyKind.BINDING,
    KeyKind.CURSOR,
    KeyKind.QUEUE,
    KeyKind.GROUP,
    KeyKind.CHOSEN_NODES,
    KeyKind.EXCHANGE,
    KeyKind.POLICY,
    KeyKind.OPERATOR_POLICY,
    KeyKind.TOPIC_PERMISSION,
    KeyKind.PERMISSION,
)


@dataclass(frozen=True, slots=True)
class Defaults:
    """Who and what is there after the very first start."""

    user: str = "guest"
    password: str = field(default="guest", repr=False)
    tags: tuple[str, ...] = (ADMINISTRATOR,)
    vhost: str = "/"
    configure: str = ".*"
    write: str = ".*"
    read: str = ".*"


class AdminError(Exception):
    """The request cannot be met; the text is for whoever made it."""


class NoSuchUser(AdminError):
    def __init__(self, name: str) -> None:
        super().__init__(f'User "{name}" does not exist')
        self.name = name


class NoSuchVhost(AdminError):
    def __init__(self, name: str) -> None:
        super().__init__(f"Virtual host '{name}' does not exist")
        self.name = name


class UserExists(AdminError):
    def __init__(self, name: str) -> None:
        super().__init__(f'User "{name}" already exists')


class InvalidCredentials(AdminError):
    """A stored password of a form that nobody could log in with."""


class InvalidLimits(AdminError):
    pass


class AccessAdmin:
    def __init__(
        self, store: MetadataStore, access: AccessControl, defaults: Defaults | None = None
    ) -> None:
        self._store = store
        self._access = access
        self._defaults = defaults or Defaults()

    async def open(self) -> None:
        """Let `access` follow the store; on the very first start, make the defaults."""
        self._store.watch(self._access.apply)
        for kind in ACCESS_KINDS:
            records = await self._store.range(keys.prefix(kind))
            try:
                self._access.apply([Change(record.key, record) for record in records])
            except UnreadableAccessRecord as error:
                raise MetadataUnusable(
                    f"cannot read who may do what ({error}); start the version of Warren that "
                    "wrote it, or restore a backup"
                ) from error
        await self._seed()

    # Users.

    async def add_user(self, name: str, password: str, tags: Iterable[str] = ()) -> None:
        user = User(name, hash_password(password), SHA256, tuple(tags))
        put = Put(keys.user_key(name), encode_user(user))
        await self._sweep_user(name)
        if not await self._store.transact([Check(put.key, 0)], [put]):
            raise UserExists(name)

    async def put_user(self, user: User) -> None:
        """Make or replace a user with a stored password, as definitions and the HTTP API do."""
        if user.hashing_algorithm not in ALGORITHMS:
            raise InvalidCredentials(f"unknown hashing algorithm '{user.hashing_algorithm}'")
        changes: list[Operation] = [Put(keys.user_key(user.name), encode_user(user))]
        if user.limits:
            _require_limits(user.limits, USER_LIMITS, "user-limits")
            changes.append(Put(keys.user_limit_key(user.name), encode_limits(user.limits)))
        await self._sweep_user(user.name)
        await self._store.transact([], changes)

    async def set_password(self, name: str, password: str) -> None:
        stored = hash_password(password)
        await self._replace_user(
            name, lambda user: replace(user, password_hash=stored, hashing_algorithm=SHA256)
        )

    async def clear_password(self, name: str) -> None:
        """Nobody can log in as this user by password any more."""
        await self._replace_user(name, lambda user: replace(user, password_hash=""))

    async def set_tags(self, name: str, tags: Iterable[str]) -> None:
        wanted = tuple(tags)
        await self._replace_user(name, lambda user: replace(user, tags=wanted))

    async def delete_user(self, name: str) -> None:
        for _ in range(ATTEMPTS_MAX):
            record = await self._require_user(name)
            deletes = [*await self._owned_by_user(name), Delete(record.key)]
            if await self._store.transact([Check(record.key, record.version)], deletes):
                await self._sweep_user(name)
                return
        raise _contended(f"user {name}")

    async def set_user_limits(self, name: str, limits: Mapping[str, int]) -> None:
        _require_limits(limits, USER_LIMITS, "user-limits")
        change = _put_or_delete(keys.user_limit_key(name), limits)
        await self._change_owned(users=[name], vhosts=[], changes=[change])

    # Virtual hosts.

    async def add_vhost(self, name: str, description: str = "", tags: Iterable[str] = ()) -> None:
        """Making one that is there changes nothing, as in RabbitMQ."""
        put = Put(keys.vhost_key(name), encode_vhost(Vhost(name, description, tuple(tags))))
        await self._sweep_vhost(name)
        await self._store.transact([Check(put.key, 0)], [put])

    async def replace_vhost(self, name: str, change: Callable[[Vhost], Vhost]) -> None:
        """Give the virtual host another description, other tags, or switch its tracing."""
        for _ in range(ATTEMPTS_MAX):
            record = await self._require_vhost(name)
            put = Put(record.key, encode_vhost(change(decode_vhost(record.value))))
            if await self._store.transact([Check(record.key, record.version)], [put]):
                return
        raise _contended(f"vhost {name}")

    async def delete_vhost(self, name: str) -> None:
        for _ in range(ATTEMPTS_MAX):
            record = await self._require_vhost(name)
            deletes = [*await self._owned_by_vhost(name), Delete(record.key)]
            # From the end: permissions must not outlive the vhost, its bindings may for a moment.
            changes = deletes[1 - OPERATIONS_AT_ONCE :]
            if await self._store.transact([Check(record.key, record.version)], changes):
                await self._sweep_vhost(name)
                return
        raise _contended(f"vhost {name}")

    async def set_vhost_limits(self, name: str, limits: Mapping[str, int]) -> None:
        _require_limits(limits, VHOST_LIMITS, "limits")
        change = _put_or_delete(keys.vhost_limit_key(name), limits)
        await self._change_owned(users=[], vhosts=[name], changes=[change])

    # Permissions.

    async def set_permissions(self, permission: Permission) -> None:
        """Raises patterns.InvalidPattern."""
        require_usable(permission.configure, permission.write, permission.read)
        key = keys.permission_key(permission.vhost, permission.user)
        put = Put(key, encode_permission(permission))
        await self._change_owned([permission.user], [permission.vhost], [put])

    async def clear_permissions(self, user: str, vhost: str) -> None:
        delete = Delete(keys.permission_key(vhost, user))
        await self._change_owned([user], [vhost], [delete])

    async def set_topic_permissions(self, permission: TopicPermission) -> None:
        """Raises patterns.InvalidPattern; the variables stand for themselves while checking."""
        require_usable(permission.write, permission.read)
        user, vhost = permission.user, permission.vhost
        key = keys.topic_permission_key(vhost, user, permission.exchange)
        put = Put(key, encode_topic_permission(permission))
        await self._change_owned([user], [vhost], [put])

    async def clear_topic_permissions(
        self, user: str, vhost: str, exchange: str | None = None
    ) -> None:
        """Of one exchange, or of all."""
        rows = [
            row
            for row in self._access.directory.topic_permissions()
            if (row.user, row.vhost) == (user, vhost) and exchange in {None, row.exchange}
        ]
        gone = [Delete(keys.topic_permission_key(vhost, user, row.exchange)) for row in rows]
        await self._change_owned([user], [vhost], gone)

    # How it is done.

    async def _seed(self) -> None:
        """Once in the life of a store: a guest user that was deleted stays deleted."""
        seeded = Put(keys.seed_key("defaults"), b"{}")
        default = self._defaults
        user = User(default.user, hash_password(default.password), SHA256, default.tags)
        permission = Permission(
            default.user, default.vhost, default.configure, default.write, default.read
        )
        # Raises InvalidPattern before anything is stored.
        require_usable(permission.configure, permission.write, permission.read)
        vhost = Vhost(default.vhost, "Default virtual host")
        await self._store.transact(
            [Check(seeded.key, 0)],
            [
                seeded,
                Put(keys.user_key(user.name), encode_user(user)),
                Put(keys.vhost_key(vhost.name), encode_vhost(vhost)),
                Put(keys.permission_key(vhost.name, user.name), encode_permission(permission)),
            ],
        )

    async def _replace_user(self, name: str, change: Callable[[User], User]) -> None:
        for _ in range(ATTEMPTS_MAX):
            record = await self._require_user(name)
            put = Put(record.key, encode_user(change(decode_user(record.value))))
            if await self._store.transact([Check(record.key, record.version)], [put]):
                return
        raise _contended(f"user {name}")

    async def _change_owned(
        self, users: Sequence[str], vhosts: Sequence[str], changes: Sequence[Operation]
    ) -> None:
        """Change what belongs to these, provided that they exist when it happens."""
        for _ in range(ATTEMPTS_MAX):
            owners = [await self._require_user(user) for user in users]
            owners += [await self._require_vhost(vhost) for vhost in vhosts]
            checks = [Check(owner.key, owner.version) for owner in owners]
            if await self._store.transact(checks, changes):
                return
        raise _contended(", ".join((*users, *vhosts)))

    async def _require_user(self, name: str) -> Record:
        record = await self._store.get(keys.user_key(name))
        if record is None:
            raise NoSuchUser(name)
        return record

    async def _require_vhost(self, name: str) -> Record:
        record = await self._store.get(keys.vhost_key(name))
        if record is None:
            raise NoSuchVhost(name)
        return record

    async def _owned_by_user(self, name: str) -> list[Delete]:
        permissions = self._access.directory.permissions()
        topics = self._access.directory.topic_permissions()
        owned = [keys.permission_key(p.vhost, name) for p in permissions if p.user == name]
        owned += [
            keys.topic_permission_key(p.vhost, name, p.exchange) for p in topics if p.user == name
        ]
        return [Delete(key) for key in (*owned, *await self._existing(keys.user_limit_key(name)))]

    async def _owned_by_vhost(self, name: str) -> list[Delete]:
        owned = [
            record.key
            for kind in _OWNED_BY_VHOST
            for record in await self._store.range(keys.prefix(kind, name))
        ]
        return [Delete(key) for key in (*owned, *await self._existing(keys.vhost_limit_key(name)))]

    async def _existing(self, key: str) -> list[str]:
        return [] if await self._store.get(key) is None else [key]

    async def _sweep_user(self, name: str) -> None:
        await self._sweep(keys.user_key(name), lambda: self._owned_by_user(name))

    async def _sweep_vhost(self, name: str) -> None:
        await self._sweep(keys.vhost_key(name), lambda: self._owned_by_vhost(name))

    async def _sweep(self, owner: str, find: Callable[[], Awaitable[list[Delete]]]) -> None:
        """Remove what is left of an owner that is gone; stop if there is one of that name again."""
        while await self._store.get(owner) is None and (leftovers := await find()):
            await self._store.transact([Check(owner, 0)], leftovers[: OPERATIONS_AT_ONCE - 1])


def _put_or_delete(key: str, limits: Mapping[str, int]) -> Operation:
    return Put(key, encode_limits(limits)) if limits else Delete(key)


def _require_limits(limits: Mapping[str, int], known: frozenset[str], what: str) -> None:
    """Numbers only, and those we know; the texts are RabbitMQ's."""
    for name, value in limits.items():
        if name not in known:
            raise InvalidLimits(f'Unrecognised terms [{{<<"{name}">>,{value}}}] in {what}')
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidLimits(f'{name} should be a number, actually was <<"{value}">>')


def _contended(what: str) -> MetadataUnavailable:
    return MetadataUnavailable(f"{what} is being changed by others all the time; try again")
