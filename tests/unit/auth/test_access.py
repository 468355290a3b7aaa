"""Decisions and refusals, word for word as RabbitMQ 3.10.8 gives them."""

from __future__ import annotations

import itertools

import pytest

from warren.auth import access as access_module
from warren.auth.access import AccessControl, LoginRefused
from warren.auth.admin import AccessAdmin
from warren.auth.codec import UnreadableAccessRecord
from warren.auth.permissions import Access, Permission, ResourceKind, TopicPermission
from warren.auth.users import User
from warren.metadata.keys import permission_key, queue_key, topic_permission_key, user_key
from warren.metadata.store import Change, Record
from warren.model.errors import AmqpError, HardError, SoftError


def refusal(error: pytest.ExceptionInfo[AmqpError]) -> tuple[int, str]:
    return error.value.code, error.value.reply_text


# Logging in.


async def test_the_default_user_logs_in_from_here_only(
    admin: AccessAdmin, access: AccessControl
) -> None:
    user = access.authenticate("guest", b"guest", peer_is_loopback=True)
    assert user.name == "guest"
    assert user.tags == ("administrator",)
    with pytest.raises(LoginRefused, match=r"^user 'guest' can only connect via localhost$"):
        access.authenticate("guest", b"guest", peer_is_loopback=False)


async def test_who_must_connect_from_here_can_be_chosen(admin: AccessAdmin) -> None:
    for loopback_users in ({"other"}, set[str]()):
        access = AccessControl(loopback_users)
        await AccessAdmin(admin._store, access).open()
        assert access.authenticate("guest", b"guest", peer_is_loopback=False)


async def test_a_wrong_password_tells_nothing_about_the_address(
    admin: AccessAdmin, access: AccessControl
) -> None:
    with pytest.raises(LoginRefused, match=r"^user 'guest' - invalid credentials$"):
        access.authenticate("guest", b"wrong", peer_is_loopback=False)


async def test_an_unknown_user_is_refused_like_a_wrong_password(
    admin: AccessAdmin, access: AccessControl
) -> None:
    with pytest.raises(LoginRefused, match=r"^user 'nobody' - invalid credentials$"):
        access.authenticate("nobody", b"x", peer_is_loopback=True)


async def test_a_blank_password_never_logs_in(admin: AccessAdmin, access: AccessControl) -> None:
    await admin.add_user("blank", "")
    await admin.put_user(User("none"))
    for name in ("blank", "none", "guest", "nobody"):
        with pytest.raises(LoginRefused, match=f"^user '{name}' attempted to log in with a blank"):
            access.authenticate(name, b"", peer_is_loopback=True)
    with pytest.raises(LoginRefused, match="invalid credentials"):
        access.authenticate("none", b"x", peer_is_loopback=True)


async def test_a_user_from_a_definitions_file_logs_in(
    admin: AccessAdmin, access: AccessControl
) -> None:
    """T160, with a hash made by RabbitMQ."""
    await admin.put_user(User("hashed", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"))
    assert access.authenticate("hashed", b"test12", peer_is_loopback=False).name == "hashed"


async def test_a_hash_is_not_shown(admin: AccessAdmin, access: AccessControl) -> None:
    user = access.authenticate("guest", b"guest", peer_is_loopback=True)
    assert user.password_hash
    assert user.password_hash not in repr(user)
    assert {user: 1}[user] == 1


# Entering a vhost.


async def test_a_vhost_needs_to_exist_and_to_be_permitted(
    access: AccessControl, alice: User
) -> None:
    access.require_vhost(alice, "v")
    with pytest.raises(HardError) as error:
        access.require_vhost(alice, "other")
    assert refusal(error) == (
        530,
        "NOT_ALLOWED - access to vhost 'other' refused for user 'alice'",
    )
    with pytest.raises(HardError) as error:
        access.require_vhost(alice, "nope")
    assert refusal(error) == (530, "NOT_ALLOWED - vhost nope not found")


async def test_even_patterns_that_match_nothing_let_a_user_in(
    admin: AccessAdmin, access: AccessControl, alice: User
) -> None:
    await admin.set_permissions(Permission("alice", "other", "", "", ""))
    access.require_vhost(alice, "other")
    with pytest.raises(SoftError):
        access.require(alice, "other", "queue", "q", "read")


async def test_connection_limits_are_asked_in_order(
    admin: AccessAdmin, access: AccessControl, alice: User
) -> None:
    access.require_room_for_connection(alice, "v", 10**6, 10**6)
    await admin.set_user_limits("alice", {"max-connections": 1})
    access.require_room_for_connection(alice, "v", 10**6, 0)
    with pytest.raises(HardError) as error:
        access.require_room_for_connection(alice, "v", 10**6, 1)
    assert refusal(error) == (
        530,
        "NOT_ALLOWED - connection refused for user 'alice': user connection limit (1) is reached",
    )
    await admin.set_vhost_limits("v", {"max-connections": 3})
    access.require_room_for_connection(alice, "v", 2, 0)
    with pytest.raises(HardError) as error:
        access.require_room_for_connection(alice, "v", 3, 1)
    assert refusal(error) == (
        530,
        (
            "NOT_ALLOWED - access to vhost 'v' refused for user 'alice': "
            "connection limit (3) is reached"
        ),
    )
    with pytest.raises(HardError, match="vhost nope not found"):
        access.require_room_for_connection(alice, "nope", 0, 1)


@pytest.mark.parametrize(("limit", "is_none"), [(-1, True), (-7, True), (0, False)])
async def test_a_negative_limit_is_none_and_zero_is_one(
    admin: AccessAdmin, access: AccessControl, alice: User, limit: int, is_none: bool
) -> None:
    await admin.set_user_limits("alice", {"max-connections": limit, "max-channels": limit})
    await admin.set_vhost_limits("v", {"max-connections": limit, "max-queues": limit})
    expected = None if is_none else 0
    assert access.user_connections_max("alice") == expected
    assert access.user_channels_max("alice") == expected
    assert access.vhost_connections_max("v") == expected
    assert access.vhost_queues_max("v") == expected
    assert access.directory.user("alice") == User(
        "alice", alice.password_hash, limits={"max-connections": limit, "max-channels": limit}
    )


async def test_channels_of_a_user_are_counted(
    admin: AccessAdmin, access: AccessControl, alice: User
) -> None:
    access.require_room_for_channel(alice, 10**6)
    await admin.set_user_limits("alice", {"max-channels": 2})
    access.require_room_for_channel(alice, 1)
    with pytest.raises(HardError) as error:
        access.require_room_for_channel(alice, 2)
    assert refusal(error) == (
        530,
        (
            "NOT_ALLOWED - number of channels opened for user 'alice' has reached "
            "the maximum allowed user limit of (2)"
        ),
    )


async def test_queues_of_a_vhost_are_counted(
    admin: AccessAdmin, access: AccessControl, alice: User
) -> None:
    access.require_room_for_queue("v", "q", 10**6)
    await admin.set_vhost_limits("v", {"max-queues": 1})
    access.require_room_for_queue("v", "q", 0)
    with pytest.raises(SoftError) as error:
        access.require_room_for_queue("v", "q", 1)
    assert refusal(error) == (
        406,
        "PRECONDITION_FAILED - cannot declare queue 'q': queue limit in vhost 'v' (1) is reached",
    )


# Permissions.

KINDS: tuple[ResourceKind, ...] = ("queue", "exchange")
ACCESSES: tuple[Access, ...] = ("configure", "write", "read")


@pytest.mark.parametrize(
    ("kind", "asked", "held"), list(itertools.product(KINDS, ACCESSES, (*ACCESSES, "x")))
)
async def test_each_permission_is_for_its_own_pattern_only(
    access: AccessControl, alice: User, kind: ResourceKind, asked: Access, held: str
) -> None:
    """T151: alice holds one permission on a name, and is asked for another."""
    name = f"{held}-thing"
    if asked == held:
        access.require(alice, "v", kind, name, asked)
        return
    for _ in range(2):  # the second time from memory
        with pytest.raises(SoftError) as error:
            access.require(alice, "v", kind, name, asked)
        assert refusal(error) == (
            403,
            f"ACCESS_REFUSED - access to {kind} '{name}' in vhost 'v' refused for user 'alice'",
        )


async def test_without_a_row_nothing_is_permitted(access: AccessControl, alice: User) -> None:
    for kind, asked in itertools.product(KINDS, ACCESSES):
        with pytest.raises(SoftError, match="in vhost 'other' refused"):
            access.require(alice, "other", kind, "c-thing", asked)


async def test_the_default_exchange_has_a_name_for_patterns(
    admin: AccessAdmin, access: AccessControl, alice: User
) -> None:
    """T152."""
    with pytest.raises(SoftError) as error:
        access.require(alice, "v", "exchange", "", "write")
    assert refusal(error) == (
        403,
        "ACCESS_REFUSED - access to exchange 'amq.default' in vhost 'v' refused for user 'alice'",
    )
    await admin.set_permissions(Permission("alice", "v", "", r"^amq\.default$", ""))
    access.require(alice, "v", "exchange", "", "write")
    with pytest.raises(SoftError, match="queue '' in vhost"):
        access.require(alice, "v", "queue", "", "write")


async def test_a_permission_ends_when_it_is_revoked(
    admin: AccessAdmin, access: AccessControl, alice: User
) -> None:
    access.require(alice, "v", "queue", "c1", "configure")
    before = access.generation
    await admin.clear_permissions("alice", "v")
    assert access.generation > before
    with pytest.raises(SoftError):
        access.require(alice, "v", "queue", "c1", "configure")
    await admin.set_permissions(Permission("alice", "v", ".*", "", ""))
    access.require(alice, "v", "queue", "c1", "configure")


async def test_decisions_kept_have_a_bound(
    access: AccessControl, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_module, "DECISIONS_MAX", 10)
    for number in range(50):
        access.require(alice, "v", "queue", f"c{number}", "configure")
    assert len(access._decisions) == 10
    access.require(alice, "v", "queue", "c0", "configure")
    with pytest.raises(SoftError):
        access.require(alice, "v", "queue", "d0", "configure")


async def test_what_cannot_be_read_permits_nothing(
    admin: AccessAdmin, access: AccessControl, alice: User
) -> None:
    """A newer version wrote it: better to refuse too much than to permit too much."""
    await admin.set_topic_permissions(TopicPermission("alice", "v", "x", ".*", ".*"))
    access.require(alice, "v", "queue", "c1", "configure")
    before = access.generation
    unreadable = [
        permission_key("v", "alice"),
        topic_permission_key("v", "alice", "x"),
        user_key("guest"),
    ]
    with pytest.raises(UnreadableAccessRecord, match="permission/v/alice"):
        access.apply([Change(key, Record(key, b"?", 99)) for key in unreadable])
    assert access.generation > before
    with pytest.raises(SoftError):
        access.require(alice, "v", "queue", "c1", "configure")
    with pytest.raises(SoftError):
        access.require_topic(alice, "v", "x", "write", "k")
    with pytest.raises(LoginRefused):
        access.authenticate("guest", b"guest", peer_is_loopback=True)


async def test_what_is_not_about_access_changes_nothing(access: AccessControl, alice: User) -> None:
    before = access.generation
    access.apply([Change(queue_key("v", "q"), Record("", b"{}", 1)), Change("unknown/x", None)])
    assert access.generation == before
    access.apply([Change(user_key("nobody"), None), Change(permission_key("v", "nobody"), None)])
    assert access.generation == before + 1


# Publishing as somebody.


async def test_a_message_names_its_publisher_or_nobody_else(
    admin: AccessAdmin, access: AccessControl, alice: User
) -> None:
    """T148: own name, another, the empty one, and a user who may say anything."""
    access.require_user_id(alice, "alice")
    for other in ("bob", ""):
        with pytest.raises(SoftError) as error:
            access.require_user_id(alice, other)
        assert refusal(error) == (
            406,
            (
                f"PRECONDITION_FAILED - user_id property set to '{other}' "
                "but authenticated user was 'alice'"
            ),
        )
    await admin.set_tags("alice", ["impersonator"])
    with pytest.raises(SoftError):
        access.require_user_id(alice, "bob")  # tags are those of the login
    again = access.authenticate("alice", b"secret", peer_is_loopback=False)
    access.require_user_id(again, "bob")
