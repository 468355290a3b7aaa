"""Policies: which there are, which applies to what and why, and what another one would change."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.management.json_types import JsonObject
from warren.management.page.address import Page
from warren.management.page.api_caller import Refused
from warren.management.page.lists import vhost_names
from warren.management.page.typed_fields import table_of
from warren.management.page.visit import Visit

APPLIES_TO: Final = ("all", "queues", "exchanges")
# More changes than that nobody reads; how many there are is said.
CHANGES_SHOWN_MAX: Final = 200
_FAMILIES: Final = {"policy": "policies", "operator": "operator-policies"}


async def _list(visit: Visit) -> Response:
    return await visit.page(
        "policies.html",
        policies=await visit.api.get("policies"),
        operator_policies=await visit.api.get("operator-policies"),
        vhosts=await vhost_names(visit),
        applies_to=APPLIES_TO,
        may_set=visit.caller.is_policymaker,
    )


def _terms(visit: Visit) -> JsonObject:
    return {
        "pattern": visit.field("pattern"),
        "definition": table_of(visit.field("definition"), "definition"),
        "priority": visit.number("priority", 0),
        "apply-to": visit.field("apply_to", "all"),
    }


def _family(visit: Visit) -> str:
    return _FAMILIES.get(visit.field("kind"), _FAMILIES["policy"])


async def _set(visit: Visit) -> Response:
    name = visit.field("name")
    if not name:
        raise Refused(400, "A policy needs a name.")
    await visit.api.put(_family(visit), visit.field("vhost"), name, body=_terms(visit))
    return visit.done(f"Policy “{name}” is set.", "policies")


async def _dry_run(visit: Visit) -> Response:
    body = {**_terms(visit), "name": visit.field("name")}
    vhost = visit.field("vhost")
    changes = await visit.api.post("warren", _family(visit), vhost, "dry-run", body=body)
    return await visit.page(
        "policy_dry_run.html",
        changes=changes[:CHANGES_SHOWN_MAX],
        changes_count=len(changes),
        vhost=vhost,
    )


async def _delete(visit: Visit) -> Response:
    name = visit.field("name")
    await visit.api.delete(_family(visit), visit.field("vhost"), name)
    return visit.done(f"Policy “{name}” is gone.", "policies")


async def _explain(visit: Visit) -> Response:
    vhost, name = visit.query.get("vhost", "/"), visit.query.get("name", "")
    family = "exchanges" if visit.query.get("kind") == "exchange" else "queues"
    if not name:
        raise Refused(400, "Of what?")
    report = await visit.api.get("warren", family, vhost, name, "explain-policy")
    return await visit.page("policy_explained.html", vhost=vhost, name=name, report=report)


PAGES: Final = (
    Page(path="/policies", get=_list, post=_set),
    Page(path="/policies/dry-run", post=_dry_run),
    Page(path="/policies/delete", post=_delete),
    Page(path="/policies/explain", get=_explain),
)
