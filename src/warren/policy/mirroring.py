"""The ha-* keys, which are checked together: what one may be depends on another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warren.model.json_terms import JsonValue, render_json
from warren.policy.values import is_whole

_MODES: Final = ("all", "exactly", "nodes")
_PROMOTIONS: Final = ("always", "when-synced")


def mirroring_problem(terms: Mapping[str, JsonValue]) -> str | None:
    """The first thing wrong with these ha-* keys, in RabbitMQ's order and words."""
    if not terms:
        return None
    if "ha-mode" not in terms:
        return (
            "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
        )
    mode = terms["ha-mode"]
    if mode not in _MODES:
        return f"{render_json(mode)} is not a valid ha-mode value"
    return _params_problem(terms) or _rest_problem(terms)


def _params_problem(terms: Mapping[str, JsonValue]) -> str | None:
    mode, params = terms["ha-mode"], terms.get("ha-params")
    shown = render_json(params) if "ha-params" in terms else "none"
    if mode == "all":
        return 'ha-mode="all" does not take parameters' if "ha-params" in terms else None
    if mode == "exactly":
        is_valid = isinstance(params, int) and is_whole(params) and params > 0
        return None if is_valid else f'ha-mode="exactly" takes an integer, {shown} given'
    if not isinstance(params, list | tuple):
        return f'ha-mode="nodes" takes a list, {shown} given'
    if not params:
        return 'ha-mode="nodes" list must be non-empty'
    strangers = [each for each in params if not isinstance(each, str)]
    if not strangers:
        return None
    return f'ha-mode="nodes" takes a list of strings, {render_json(strangers)} was not a string'


def _rest_problem(terms: Mapping[str, JsonValue]) -> str | None:
    sync_mode = terms.get("ha-sync-mode", "manual")
    if sync_mode not in ("manual", "automatic"):
        shown = render_json(sync_mode)
        return f'ha-sync-mode must be "manual" or "automatic", got {shown}'
    size = terms.get("ha-sync-batch-size", 1)
    if not isinstance(size, int) or not is_whole(size) or size < 1:
        shown = render_json(size)
        return f"ha-sync-batch-size takes an integer greater than 0, {shown} given"
    for key in ("ha-promote-on-shutdown", "ha-promote-on-failure"):
        promotion = terms.get(key, "always")
        if promotion not in _PROMOTIONS:
            return f'{key} must be "always" or "when-synced", got {render_json(promotion)}'
    return None
