"""Users and what they may, virtual hosts, limits, definitions, and the cluster."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.management.json_types import JsonObject
from warren.management.page.address import Page
from warren.management.page.api_caller import Refused
from warren.management.page.visit import UPLOAD_BYTES_MAX, Visit

TAGS: Final = ("administrator", "monitoring", "policymaker", "management", "impersonator")
VHOST_LIMITS: Final = ("max-connections", "max-queues")
USER_LIMITS: Final = ("max-connections", "max-channels")
_LIMIT_FAMILIES: Final = {"vhost": "vhost-limits", "user": "user-limits"}


async def _show(visit: Visit) -> Response:
    users = await visit.api.get("users")
    permissions = await visit.api.get("permissions")
    may = {user["name"]: [p for p in permissions if p["user"] == user["name"]] for user in users}
    limits = await visit.api.get("vhost-limits")
    return await visit.page(
        "admin.html",
        # What a password was made into is nobody's business.
        users=[{name: user[name] for name in ("name", "tags", "limits")} for user in users],
        passwordless={user["name"] for user in users if not user["password_hash"]},
        permissions=may,
        vhosts=await visit.api.get("vhosts"),
        vhost_limits={row["vhost"]: row["value"] for row in limits},
        tags=TAGS,
        limit_names={"vhost": VHOST_LIMITS, "user": USER_LIMITS},
        cluster=await visit.api.get("warren", "cluster"),
        feature_flags=await visit.api.get("feature-flags"),
        environment=await visit.api.get("warren", "environment"),
    )


def _named(visit: Visit, what: str) -> str:
    name = visit.field("name")
    if not name:
        raise Refused(400, f"The {what} needs a name.")
    return name


async def _put_user(visit: Visit) -> Response:
    name = _named(visit, "user")
    tags = ",".join(tag for tag in TAGS if visit.has(f"tag-{tag}"))
    body: JsonObject = {"tags": tags}
    if visit.has("password"):
        body["password"] = visit.field("password")
    elif visit.has("keeps_password"):
        user = await visit.api.get("users", name)
        for kept in ("password_hash", "hashing_algorithm"):
            body[kept] = user[kept]
    else:
        raise Refused(400, "The user needs a password.")
    await visit.api.put("users", name, body=body)
    return visit.done(f"User “{name}” is set.", "admin")


async def _delete_user(visit: Visit) -> Response:
    name = visit.field("name")
    await visit.api.delete("users", name)
    return visit.done(f"User “{name}” is gone.", "admin")


async def _put_permission(visit: Visit) -> Response:
    user, vhost = visit.field("user"), visit.field("vhost")
    body = {kind: visit.field(kind) for kind in ("configure", "write", "read")}
    await visit.api.put("permissions", vhost, user, body=body)
    return visit.done(f"“{user}” has these permissions in “{vhost}” now.", "admin")


async def _delete_permission(visit: Visit) -> Response:
    user, vhost = visit.field("user"), visit.field("vhost")
    await visit.api.delete("permissions", vhost, user)
    return visit.done(f"“{user}” has no permissions in “{vhost}” any more.", "admin")


async def _put_vhost(visit: Visit) -> Response:
    name = _named(visit, "virtual host")
    await visit.api.put("vhosts", name, body={"description": visit.field("description")})
    return visit.done(f"Virtual host “{name}” is set.", "admin")


async def _delete_vhost(visit: Visit) -> Response:
    name = visit.field("name")
    await visit.api.delete("vhosts", name)
    return visit.done(f"Virtual host “{name}” is gone.", "admin")


async def _set_limit(visit: Visit) -> Response:
    """Without a number the limit goes."""
    name, limit = visit.field("name"), visit.field("limit")
    family = _LIMIT_FAMILIES.get(visit.field("kind"), _LIMIT_FAMILIES["vhost"])
    if visit.has("value"):
        await visit.api.put(family, name, limit, body={"value": visit.number("value", -1)})
        return visit.done(f"{limit} of “{name}” is set.", "admin")
    await visit.api.delete(family, name, limit)
    return visit.done(f"{limit} of “{name}” is gone.", "admin")


async def _export(visit: Visit) -> Response:
    query = {"download": "warren-definitions.json"}
    return visit.api.passed_on("definitions", query=query)


async def _import(visit: Visit) -> Response:
    content = visit.file("file")
    if not content:
        raise Refused(400, "Choose a file first.")
    await visit.api.send_file("definitions", content=content)
    return visit.done("The definitions were imported.", "admin")


PAGES: Final = (
    Page(path="/admin", get=_show),
    Page(path="/admin/users", post=_put_user),
    Page(path="/admin/users/delete", post=_delete_user),
    Page(path="/admin/permissions", post=_put_permission),
    Page(path="/admin/permissions/delete", post=_delete_permission),
    Page(path="/admin/vhosts", post=_put_vhost),
    Page(path="/admin/vhosts/delete", post=_delete_vhost),
    Page(path="/admin/limits", post=_set_limit),
    Page(path="/admin/definitions", get=_export, post=_import, form_bytes_max=UPLOAD_BYTES_MAX),
)
