"""Users: their passwords, tags and limits."""

from __future__ import annotations

import sys
from typing import Any, Final

from warren.cli.ctl.api import Refusal
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Document, Table, json_text
from warren.cli.ctl.limits import limit_names, limits_given
from warren.cli.ctl.terms import Atom
from warren.cli.ctl.verbs import Argument, Exit, Failure, Family, Kind, Option, Verb, error

HINT: Final = (
    "Done. Don't forget to grant the user permissions to some virtual hosts! "
    "See 'warrenctl help set_permissions' to learn more."
)
DEFAULT_LIMITS_USER: Final = "guest"
USER_LIMITS: Final = ("max-connections", "max-channels")

User = dict[str, Any]


def existing_user(call: Call, name: str) -> User:
    user: User | None = call.api.get_or_none("users", name)
    if user is None:
        raise error(f'User "{name}" does not exist', Exit.NO_USER)
    return user


def _password(call: Call, code: Exit) -> str:
    """The second argument, or asked for."""
    given = call.argument(1)
    if given is not None:
        return given
    if sys.stdin.isatty():
        from getpass import getpass

        typed = getpass("Password: ")
    else:
        call.announce("Password: ")
        typed = sys.stdin.readline().rstrip("\n")
    if not typed:
        raise error("Password is not provided via argument or stdin", code)
    return typed


def add_user(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f'Adding user "{name}" ...')
    password = _password(call, Exit.DATA)
    if call.api.get_or_none("users", name) is not None:
        raise error(f'User "{name}" already exists', Exit.DATA, Exit.SOFTWARE)
    secret = "password_hash" if call.flag("pre-hashed-password") or not password else "password"
    call.api.put("users", name, body={secret: password, "tags": ""})
    return None if call.is_quiet else HINT


def delete_user(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f'Deleting user "{name}" ...')
    existing_user(call, name)
    call.api.delete("users", name)
    return None


def change_password(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f'Changing password for user "{name}" ...')
    password = _password(call, Exit.SOFTWARE)
    user = existing_user(call, name)
    secret = "password" if password else "password_hash"
    call.api.put("users", name, body={secret: password, "tags": user["tags"]})
    return None


def clear_password(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f'Clearing password for user "{name}" ...')
    user = existing_user(call, name)
    call.api.put("users", name, body={"password_hash": "", "tags": user["tags"]})
    return None


def authenticate_user(call: Call) -> Answer:
    from dataclasses import replace

    name = call.arguments[0]
    call.announce(f'Authenticating user "{name}" ...')
    password = _password(call, Exit.SOFTWARE)
    call.make_contact()
    asked = call.another_api(call.timeout_s, replace(call.target, user=name, password=password))
    try:
        asked.get("whoami")
    except Refusal as refusal:  # it was let in, and told something else
        if refusal.status >= 500:
            raise
    except Failure as failure:
        if "does not accept the password" in failure.text:
            raise error(
                f'Error: failed to authenticate user "{name}"\n'
                f"user '{name}' - invalid credentials",
                Exit.DATA,
            ) from failure
        if "may not do this" not in failure.text:
            raise
    return "Success"


def check_user_access(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f'Checking what backends answer for user "{name}" ...')
    body: dict[str, object] = {
        "username": name,
        "password": _password(call, Exit.SOFTWARE),
        "vhost": call.vhost,
    }
    for option in ("queue", "exchange", "permission", "routing-key"):
        if (value := call.text(option)) is not None:
            body[option.replace("-", "_")] = value
    checked = call.api.post("warren", "access", "check", body=body)
    lines = [_step_line(step) for step in checked["steps"]]
    user = checked["user"]
    if user is not None:
        lines.insert(0, f"User: {user['name']}, tags: {', '.join(user['tags']) or '(none)'}")
    answer = Document("\n".join([*lines, _outcome(checked)]), checked)
    if not checked["is_permitted"]:
        raise error("\n".join([*lines, _outcome(checked)]), Exit.DATA)
    return answer


def _step_line(step: dict[str, Any]) -> str:
    reason = f" ({step['reason']})" if step["reason"] else ""
    return f"{step['backend']}: {step['question']}: {step['answer']}{reason}"


def _outcome(checked: dict[str, Any]) -> str:
    return "Outcome: permitted" if checked["is_permitted"] else "Outcome: refused"


def set_user_tags(call: Call) -> Answer:
    name, *tags = call.arguments
    call.announce(f'Setting tags for user "{name}" to [{", ".join(tags)}] ...')
    user = existing_user(call, name)
    body: dict[str, object] = {"tags": ",".join(tags)}
    for kept in ("password_hash", "hashing_algorithm"):
        if kept in user:
            body[kept] = user[kept]
    call.api.put("users", name, body=body)
    return None


def list_users(call: Call) -> Answer:
    call.announce("Listing users ...")
    rows = [{"user": u["name"], "tags": _tags(u["tags"])} for u in call.api.get("users")]
    return Table(("user", "tags"), rows)


def _tags(tags: str | list[str] | None) -> list[Atom]:
    """Versions before 3.9 say "a,b"."""
    names = tags.split(",") if isinstance(tags, str) else (tags or [])
    return [Atom(name) for name in names if name]


def set_user_limits(call: Call) -> Answer:
    name, definition = call.arguments
    call.announce(f'Setting user limits to "{definition}" for user "{name}" ...')
    limits = limits_given(call, 1, USER_LIMITS, "user-limits")
    _known_to_limits(call, name)
    for limit, value in limits.items():
        call.api.put("user-limits", name, limit, body={"value": value})
    return None


def clear_user_limits(call: Call) -> Answer:
    name, limit = call.arguments
    what = "all limits" if limit == "all" else f'"{limit}" limit'
    call.announce(f'Clearing {what} for user "{name}" ...')
    _known_to_limits(call, name)
    set_now = limit_names(call.api.get("user-limits", name))
    for each in set_now if limit == "all" else [limit]:
        if each in set_now:
            call.api.delete("user-limits", name, each)
    return None


def list_user_limits(call: Call) -> Answer:
    if call.flag("global"):
        call.announce("Listing limits for all users ...")
        rows = [
            {"user": entry["user"], "limits": json_text(entry["value"])}
            for entry in call.api.get("user-limits")
        ]
        return Table(("user", "limits"), rows)
    name = call.text("user") or DEFAULT_LIMITS_USER
    call.announce(f'Listing limits for user "{name}" ...')
    _known_to_limits(call, name)
    entries = call.api.get("user-limits", name)
    text = json_text(entries[0]["value"] if entries else {})
    return Document(text, {"message": text})


def _known_to_limits(call: Call, name: str) -> None:
    """These verbs fail another way than the others."""
    if call.api.get_or_none("users", name) is None:
        raise error(f'{{:no_such_user, "{name}"}}')


_USERNAME: Final = Argument("username", "name of the user")
_PASSWORD: Final = Argument("password", "read from standard input if absent", is_optional=True)

VERBS: Final = (
    Verb(
        name="add_user",
        family=Family.USERS,
        summary="Creates a new user. It has no permissions for any virtual host by default",
        run=add_user,
        arguments=(_USERNAME, _PASSWORD),
        options=(Option("pre-hashed-password", "the password is a hash already"),),
        notes="A blank password makes a user who cannot log in with one.",
    ),
    Verb(
        name="delete_user",
        family=Family.USERS,
        summary="Removes a user and closes its connections",
        run=delete_user,
        arguments=(_USERNAME,),
    ),
    Verb(
        name="change_password",
        family=Family.USERS,
        summary="Changes the user password",
        run=change_password,
        arguments=(_USERNAME, _PASSWORD),
    ),
    Verb(
        name="clear_password",
        family=Family.USERS,
        summary="Clears (resets) password and disables password login for a user",
        run=clear_password,
        arguments=(_USERNAME,),
    ),
    Verb(
        name="authenticate_user",
        family=Family.USERS,
        summary="Attempts to authenticate a user. Exits with a non-zero code if that fails",
        run=authenticate_user,
        arguments=(_USERNAME, _PASSWORD),
    ),
    Verb(
        name="check_user_access",
        family=Family.USERS,
        summary="Says which auth backend answers what about a user, and changes nothing",
        run=check_user_access,
        arguments=(_USERNAME, _PASSWORD),
        options=(
            Option("queue", "name of a queue", Kind.TEXT),
            Option("exchange", "name of an exchange", Kind.TEXT),
            Option("permission", "configure, write or read; default read", Kind.TEXT),
            Option("routing-key", "with --exchange: of a topic", Kind.TEXT, metavar="key"),
        ),
        is_scoped=True,
        notes="Exits with a non-zero code if the user is refused.",
    ),
    Verb(
        name="set_user_tags",
        family=Family.USERS,
        summary="Sets user tags",
        run=set_user_tags,
        arguments=(
            _USERNAME,
            Argument("tag", "administrator, monitoring, policymaker, management", is_rest=True),
        ),
        notes="Without a tag, all of the user's tags are removed.",
    ),
    Verb(
        name="list_users",
        family=Family.USERS,
        summary="List user names and tags",
        run=list_users,
        is_table=True,
    ),
    Verb(
        name="set_user_limits",
        family=Family.USERS,
        summary="Sets user limits",
        run=set_user_limits,
        arguments=(_USERNAME, Argument("definition", 'JSON: {"max-connections": 10}')),
    ),
    Verb(
        name="clear_user_limits",
        family=Family.USERS,
        summary="Clears user connection/channel limits",
        run=clear_user_limits,
        arguments=(_USERNAME, Argument("limit_type", "max-connections, max-channels or all")),
        usage_of_arguments="<username> <limit_type> | all",
    ),
    Verb(
        name="list_user_limits",
        family=Family.USERS,
        summary="Displays configured user limits",
        run=list_user_limits,
        options=(
            Option("user", "whose limits; default guest", Kind.TEXT, metavar="username"),
            Option("global", "list limits for all the users"),
        ),
    ),
)
