"""Topic permissions: which routing keys a user may use, in RabbitMQ's words."""

from __future__ import annotations

import pytest

from warren.auth.access import AccessControl
from warren.auth.admin import AccessAdmin
from warren.auth.permissions import TopicPermission
from warren.auth.users import User
from warren.model.errors import SoftError


async def test_without_a_topic_row_every_key_is_permitted(
    access: AccessControl, alice: User
) -> None:
    access.require_topic(alice, "v", "amq.topic", "write", "any.key")
    access.require_topic(alice, "v", "amq.topic", "read", "any.key")


async def test_a_topic_row_binds_its_exchange_only(
    admin: AccessAdmin, access: AccessControl, alice: User
) -> None:
    """T153."""
    await admin.set_topic_permissions(TopicPermission("alice", "v", "amq.topic", "^a", "^b"))
    access.require_topic(alice, "v", "amq.topic", "write", "a.b")
    access.require_topic(alice, "v", "amq.topic", "read", "b.a")
    access.require_topic(alice, "v", "other.topic", "write", "b.a")
    with pytest.raises(SoftError) as error:
        access.require_topic(alice, "v", "amq.topic", "write", "b.a")
    assert error.value.reply_text == (
        "ACCESS_REFUSED - access to topic 'b.a' in exchange 'amq.topic' in vhost 'v' "
        "refused for user 'alice'"
    )
    with pytest.raises(SoftError):
        access.require_topic(alice, "v", "amq.topic", "read", "a.b")


async def test_an_empty_topic_pattern_permits_the_empty_key_only(
    admin: AccessAdmin, access: AccessControl, alice: User
) -> None:
    await admin.set_topic_permissions(TopicPermission("alice", "v", "amq.topic", "", ""))
    access.require_topic(alice, "v", "amq.topic", "write", "")
    with pytest.raises(SoftError):
        access.require_topic(alice, "v", "amq.topic", "write", "a")


async def test_variables_stand_for_vhost_user_and_client(
    admin: AccessAdmin, access: AccessControl, alice: User
) -> None:
    pattern = r"^{username}-{vhost}-{client_id}-\d$"
    await admin.set_topic_permissions(TopicPermission("alice", "v", "amq.topic", pattern, ""))
    access.require_topic(alice, "v", "amq.topic", "write", "alice-v-c1-5", client_id="c1")
    access.require_topic(alice, "v", "amq.topic", "write", "alice-v-{client_id}-5")
    with pytest.raises(SoftError):
        access.require_topic(alice, "v", "amq.topic", "write", "bob-v-c1-5", client_id="c1")
    with pytest.raises(SoftError):
        access.require_topic(alice, "v", "amq.topic", "write", "alice-v--5")


@pytest.mark.parametrize("client_id", [".*", r"\E.*\Q", r"x|^", "a{2}", "("])
async def test_a_client_id_is_no_pattern(
    admin: AccessAdmin, access: AccessControl, alice: User, client_id: str
) -> None:
    """The client chooses it, so it must not be able to widen what it may do."""
    row = TopicPermission("alice", "v", "amq.topic", "^{client_id}$", "")
    await admin.set_topic_permissions(row)
    access.require_topic(alice, "v", "amq.topic", "write", client_id, client_id=client_id)
    with pytest.raises(SoftError):
        access.require_topic(alice, "v", "amq.topic", "write", "secret", client_id=client_id)


async def test_a_name_that_makes_no_pattern_permits_nothing(
    admin: AccessAdmin, access: AccessControl
) -> None:
    await admin.add_user("odd(", "secret")
    row = TopicPermission("odd(", "/", "amq.topic", "^{username}", ".*")
    await admin.set_topic_permissions(row)
    with pytest.raises(SoftError):
        access.require_topic(User("odd("), "/", "amq.topic", "write", "odd(")
