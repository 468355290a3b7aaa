"""Who may come in, how many of them, and what ends with a user or a vhost."""

from __future__ import annotations

import pytest

from acceptance.actions import eventually
from acceptance.conftest import Realm
from acceptance.raw_client import Login, RawClient, encode_properties

# A stored password with a known salt (90 8D C6 0A), made outside of the broker.
HASH_OF_TEST12 = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


def refused_at_open(realm: Realm, login: Login) -> str:
    """Log in, ask for the vhost, and return why that was refused."""
    client: RawClient = realm.connect()
    client.log_in(login)
    client.accept_tuning(login)
    client.send(0, "connection.open", virtual_host=login.vhost)
    text = client.expect_connection_close(530).reply_text
    assert isinstance(text, str)
    return text


def test_a_vhost_without_a_permission_is_closed(realm: Realm) -> None:
    """T015: 530 access to vhost refused."""
    user = realm.add_user()
    login = Login(user=user, password=f"secret of {user}", vhost="/")
    assert refused_at_open(realm, login) == (
        f"NOT_ALLOWED - access to vhost '/' refused for user '{user}'"
    )


def test_a_vhost_may_limit_its_connections(realm: Realm) -> None:
    """T154: with a limit of 1 the second is refused; with 0 none is let in."""
    user = realm.add_user()
    realm.admin.limit_vhost(realm.vhost, "max-connections", 1)
    first = realm.open(user)
    assert refused_at_open(realm, realm.login(user)) == (
        f"NOT_ALLOWED - access to vhost '{realm.vhost}' refused for user '{user}': "
        "connection limit (1) is reached"
    )
    first.close()
    realm.admin.limit_vhost(realm.vhost, "max-connections", 0)
    assert "connection limit (0) is reached" in refused_at_open(realm, realm.login(user))


def test_a_place_that_is_freed_can_be_taken(realm: Realm) -> None:
    """T154: the limit counts connections that are there now."""
    user = realm.add_user()
    realm.admin.limit_vhost(realm.vhost, "max-connections", 1)
    realm.open(user).close()

    def can_open() -> bool:
        try:
            realm.open(user)
        except AssertionError:
            return False
        return True

    eventually(can_open)


def test_a_vhost_may_limit_its_queues(realm: Realm) -> None:
    """T155: the second is a 406; declaring the first again is fine."""
    client = realm.open(realm.add_user())
    realm.admin.limit_vhost(realm.vhost, "max-queues", 1)
    client.call(1, "queue.declare", queue="first")
    client.call(1, "queue.declare", queue="first")
    client.send(1, "queue.declare", queue="second")
    assert client.expect_channel_close(1, 406).reply_text == (
        "PRECONDITION_FAILED - cannot declare queue 'second': "
        f"queue limit in vhost '{realm.vhost}' (1) is reached"
    )


def test_a_user_may_have_a_limit_of_channels(realm: Realm) -> None:
    """T156: the connection that opens one too many is closed with 530."""
    user = realm.add_user()
    realm.admin.limit_user(user, "max-channels", 2)
    client = realm.open(user, channels=2)
    client.send(3, "channel.open")
    assert client.expect_connection_close(530).reply_text == (
        f"NOT_ALLOWED - number of channels opened for user '{user}' has reached "
        "the maximum allowed user limit of (2)"
    )


def test_a_user_may_have_a_limit_of_connections(realm: Realm) -> None:
    """T156: as a vhost may."""
    user = realm.add_user()
    realm.admin.limit_user(user, "max-connections", 1)
    realm.open(user)
    # Versions differ in the case of the first letter.
    assert refused_at_open(realm, realm.login(user)).replace("Connection", "connection") == (
        f"NOT_ALLOWED - connection refused for user '{user}': user connection limit (1) is reached"
    )


def test_a_deleted_vhost_closes_its_connections(realm: Realm) -> None:
    """T157: 320 that says why."""
    client = realm.open(realm.add_user())
    realm.admin.delete_vhost(realm.vhost)
    close = client.expect_connection_close(320)
    assert close.reply_text == f"CONNECTION_FORCED - vhost '{realm.vhost}' is deleted"
    realm.admin.add_vhost(realm.vhost)


def test_a_deleted_user_loses_its_connections(realm: Realm) -> None:
    """T157: 320 for the user, and nothing for the others."""
    user, other = realm.add_user(), realm.add_user()
    client, bystander = realm.open(user), realm.open(other)
    realm.admin.delete_user(user)
    realm.users.remove(user)
    close = client.expect_connection_close(320)
    assert close.reply_text == f"CONNECTION_FORCED - user '{user}' is deleted"
    bystander.call(2, "channel.open")


def test_a_stored_hash_is_a_password(realm: Realm) -> None:
    """T160: a hash made elsewhere logs in with its password and no other."""
    user = realm.add_user()
    realm.admin.add_user_with_hash(user, HASH_OF_TEST12)
    realm.connect().open(Login(user=user, password="test12", vhost=realm.vhost))
    with pytest.raises(AssertionError, match="Login was refused"):
        realm.connect().open(Login(user=user, password="test13", vhost=realm.vhost))


@pytest.mark.parametrize("password", ["", "wrong"])
def test_a_wrong_or_blank_password_is_refused(realm: Realm, password: str) -> None:
    """T005: blank ones too."""
    user = realm.add_user()
    with pytest.raises(AssertionError, match="Login was refused"):
        realm.connect().open(Login(user=user, password=password, vhost=realm.vhost))


def test_an_impersonator_may_use_any_user_id(realm: Realm) -> None:
    """T148: the tag `impersonator` lifts the check, no other tag does."""
    impersonator = realm.open(realm.add_user("impersonator"))
    impersonator.call(1, "queue.declare", queue="inbox")
    properties = encode_properties(user_id="somebody")
    impersonator.publish(1, b"", properties, routing_key="inbox")
    message = impersonator.get(1, "inbox")
    assert message is not None
    assert message.properties["user_id"] == "somebody"
    administrator = realm.open(realm.add_user("administrator"))
    administrator.publish(1, b"", properties, routing_key="inbox")
    administrator.expect_channel_close(1, 406)
