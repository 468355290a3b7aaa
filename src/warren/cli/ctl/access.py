"""Permissions and topic permissions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from warren.cli.ctl.api import NotFound, Refusal
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Table
from warren.cli.ctl.verbs import Argument, Exit, Family, Verb, error, no_such_vhost

PATTERNS: Final = ("configure", "write", "read")


def set_permissions(call: Call) -> Answer:
    user, *patterns = call.arguments
    call.announce(f'Setting permissions for user "{user}" in vhost "{call.vhost}" ...')
    body = dict(zip(PATTERNS, patterns, strict=True))
    _change(call, user, lambda: call.api.put("permissions", call.vhost, user, body=body))
    return None


def clear_permissions(call: Call) -> Answer:
    user = call.arguments[0]
    call.announce(f'Clearing permissions for user "{user}" in vhost "{call.vhost}" ...')
    _change(call, user, lambda: call.api.delete("permissions", call.vhost, user))
    return None


def list_permissions(call: Call) -> Answer:
    call.announce(f'Listing permissions for vhost "{call.vhost}" ...')
    return _rows(_of_vhost(call, "permissions"), ("user", *PATTERNS))


def list_user_permissions(call: Call) -> Answer:
    call.announce(f'Listing permissions for user "{call.arguments[0]}" ...')
    return _rows(_of_user(call, "permissions"), ("vhost", *PATTERNS))


def set_topic_permissions(call: Call) -> Answer:
    user, exchange, write, read = call.arguments
    call.announce(
        f'Setting topic permissions on "{exchange}" for user "{user}" in vhost "{call.vhost}" ...'
    )
    body = {"exchange": exchange, "write": write, "read": read}
    _change(call, user, lambda: call.api.put("topic-permissions", call.vhost, user, body=body))
    return None


def clear_topic_permissions(call: Call) -> Answer:
    user, exchanges = call.arguments[0], call.arguments[1:]
    where = "".join(f' on "{exchange}"' for exchange in exchanges)
    call.announce(
        f'Clearing topic permissions{where} for user "{user}" in vhost "{call.vhost}" ...'
    )
    path = ("topic-permissions", call.vhost, user, *exchanges)
    _change(call, user, lambda: call.api.delete(*path))
    return None


def list_topic_permissions(call: Call) -> Answer:
    call.announce(f'Listing topic permissions for vhost "{call.vhost}" ...')
    return _rows(_of_vhost(call, "topic-permissions"), ("user", "exchange", "write", "read"))


def list_user_topic_permissions(call: Call) -> Answer:
    call.announce(f'Listing topic permissions for user "{call.arguments[0]}" ...')
    return _rows(_of_user(call, "topic-permissions"), ("vhost", "exchange", "write", "read"))


def _change(call: Call, user: str, change: Any) -> None:
    """Do it; if it fails, find out whether the user or the vhost is what is missing."""
    try:
        change()
    except Refusal as refusal:
        if call.api.get_or_none("users", user) is None:
            raise error(f"User {user} does not exist", Exit.NO_USER) from refusal
        if call.api.get_or_none("vhosts", call.vhost) is None:
            raise error(f"Virtual host {call.vhost} does not exist") from refusal
        if not isinstance(refusal, NotFound):  # what is cleared may have been clear before
            raise


def _of_vhost(call: Call, kind: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] | None = call.api.get_or_none("vhosts", call.vhost, kind)
    if rows is None:
        raise no_such_vhost(call.vhost)
    return rows


def _of_user(call: Call, kind: str) -> list[dict[str, Any]]:
    user = call.arguments[0]
    rows: list[dict[str, Any]] | None = call.api.get_or_none("users", user, kind)
    if rows is None:
        raise error(f'{{:no_such_user, "{user}"}}')
    return rows


def _rows(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> Table:
    return Table(columns, [{column: row[column] for column in columns} for row in rows])


_USERNAME: Final = Argument("username", "name of the user")
_EXCHANGE: Final = Argument("exchange", "topic exchange")
_WRITE: Final = Argument("write", "pattern of names (or routing keys) the user may write to")
_READ: Final = Argument("read", "pattern of names (or routing keys) the user may read from")
_CONFIGURE: Final = Argument("conf", "pattern of names the user may declare and delete")

VERBS: Final = (
    Verb(
        name="set_permissions",
        family=Family.ACCESS,
        summary="Sets user permissions for a vhost",
        run=set_permissions,
        arguments=(_USERNAME, _CONFIGURE, _WRITE, _READ),
        is_scoped=True,
        notes='Patterns are regular expressions; "" allows nothing, ".*" everything.',
    ),
    Verb(
        name="clear_permissions",
        family=Family.ACCESS,
        summary="Revokes user permissions for a vhost",
        run=clear_permissions,
        arguments=(_USERNAME,),
        is_scoped=True,
    ),
    Verb(
        name="list_permissions",
        family=Family.ACCESS,
        summary="Lists user permissions in a virtual host",
        run=list_permissions,
        is_scoped=True,
        is_table=True,
    ),
    Verb(
        name="list_user_permissions",
        family=Family.ACCESS,
        summary="Lists permissions of a user across all virtual hosts",
        run=list_user_permissions,
        arguments=(_USERNAME,),
        is_table=True,
    ),
    Verb(
        name="set_topic_permissions",
        family=Family.ACCESS,
        summary="Sets user topic permissions for an exchange",
        run=set_topic_permissions,
        arguments=(_USERNAME, _EXCHANGE, _WRITE, _READ),
        is_scoped=True,
    ),
    Verb(
        name="clear_topic_permissions",
        family=Family.ACCESS,
        summary="Clears user topic permissions for a vhost or exchange",
        run=clear_topic_permissions,
        arguments=(_USERNAME, Argument("exchange", "only on this one", is_optional=True)),
        is_scoped=True,
    ),
    Verb(
        name="list_topic_permissions",
        family=Family.ACCESS,
        summary="Lists topic permissions in a virtual host",
        run=list_topic_permissions,
        is_scoped=True,
        is_table=True,
    ),
    Verb(
        name="list_user_topic_permissions",
        family=Family.ACCESS,
        summary="Lists user topic permissions",
        run=list_user_topic_permissions,
        arguments=(_USERNAME,),
        is_table=True,
    ),
)
