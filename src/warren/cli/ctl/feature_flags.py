"""Feature flags: all that RabbitMQ 3.10 has are there from the start, and enabled."""

from __future__ import annotations

from typing import Any, Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer
from warren.cli.ctl.listing import COLUMN_ARGUMENT, by_name, choose, fill, plain, renamed, word
from warren.cli.ctl.verbs import Argument, Exit, Family, Verb, error

COLUMNS: Final = by_name(
    plain("name"), word("state"), word("stability"), word("provided_by"),
    renamed("desc", "desc"), renamed("doc_url", "doc_url"),
)  # fmt: skip


def list_feature_flags(call: Call) -> Answer:
    columns = choose(call, COLUMNS, ("name", "state"))
    call.announce("Listing feature flags ...")
    return fill(columns, _flags(call))


def enable_feature_flag(call: Call) -> Answer:
    name = call.arguments[0]
    if name == "all":
        call.announce("Enabling all feature flags ...")
        _flags(call)
        return None
    call.announce(f'Enabling feature flag "{name}" ...')
    if name not in {flag["name"] for flag in _flags(call)}:
        raise error(f"This feature flag is not supported by node {call.node}", Exit.USAGE)
    call.api.put("feature-flags", name, "enable", body={})
    return None


def _flags(call: Call) -> list[dict[str, Any]]:
    flags: list[dict[str, Any]] = call.api.get("feature-flags")
    return flags


VERBS: Final = (
    Verb(
        name="list_feature_flags",
        family=Family.FEATURE_FLAGS,
        summary="Lists feature flags",
        run=list_feature_flags,
        arguments=(COLUMN_ARGUMENT,),
        is_table=True,
        columns=tuple(COLUMNS),
    ),
    Verb(
        name="enable_feature_flag",
        family=Family.FEATURE_FLAGS,
        summary="Enables a feature flag, or all of them: they are enabled already",
        run=enable_feature_flag,
        arguments=(Argument("feature_flag", "its name, or all"),),
    ),
)
