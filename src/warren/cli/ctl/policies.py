"""Policies and operator policies, what they would change, and why a queue has which."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from warren.cli.ctl.api import NotFound, Refusal
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Document, Table, json_text
from warren.cli.ctl.help import bold
from warren.cli.ctl.verbs import Argument, Exit, Family, Kind, Option, Verb, error, no_such_vhost

COLUMNS: Final = ("vhost", "name", "pattern", "apply-to", "definition", "priority")


@dataclass(frozen=True)
class PolicyKind:
    """The two kinds differ in name only."""

    path: str
    setting: str
    clearing: str
    listing: str


POLICIES: Final = PolicyKind("policies", "policy", "policy", "policies")
OPERATOR_POLICIES: Final = PolicyKind(
    "operator-policies", "operator policy override", "operator policy", "operator policy overrides"
)


def setting(kind: PolicyKind) -> Callable[[Call], Answer]:
    def set_policy(call: Call) -> Answer:
        name, pattern, definition = call.arguments
        priority = call.integer("priority") or 0
        if not call.flag("dry-run"):
            call.announce(
                f'Setting {kind.setting} "{name}" for pattern "{pattern}" to "{definition}" '
                f'with priority "{priority}" for vhost "{call.vhost}" ...'
            )
        body = {
            "pattern": pattern,
            "definition": call.json_argument(2),
            "priority": priority,
            "apply-to": call.text("apply-to") or "all",
        }
        if call.flag("dry-run"):
            return _dry_run(call, kind, {"name": name, **body})
        try:
            call.api.put(kind.path, call.vhost, name, body=body)
        except NotFound as absent:
            raise no_such_vhost(call.vhost) from absent
        except Refusal as refusal:
            raise _refused(refusal, body) from refusal
        return None

    return set_policy


def _refused(refusal: Refusal, body: dict[str, object]) -> Exception:
    """RabbitMQ's text, and the key that was meant, or what is wrong with the pattern."""
    if refusal.status != http.client.BAD_REQUEST:
        return refusal
    from warren.cli.ctl.policy_hints import hint_for

    hint = hint_for(str(body["pattern"]), body["definition"])
    return error(refusal.reason or refusal.kind, Exit.DATA, Exit.UNAVAILABLE, hint)


def clearing(kind: PolicyKind) -> Callable[[Call], Answer]:
    def clear_policy(call: Call) -> Answer:
        name = call.arguments[0]
        call.announce(f'Clearing {kind.clearing} "{name}" on vhost "{call.vhost}" ...')
        try:
            call.api.delete(kind.path, call.vhost, name)
        except NotFound as absent:
            raise error("Parameter does not exist") from absent
        return None

    return clear_policy


def listing(kind: PolicyKind) -> Callable[[Call], Answer]:
    def list_policies(call: Call) -> Answer:
        call.announce(f'Listing {kind.listing} for vhost "{call.vhost}" ...')
        policies = call.api.get_or_none(kind.path, call.vhost)
        if policies is None:
            raise no_such_vhost(call.vhost)
        policies.sort(key=lambda policy: policy["priority"])
        rows = [{**policy, "definition": json_text(policy["definition"])} for policy in policies]
        # RabbitMQ has no such column: it appears if a pattern had to be given up.
        has_problems = any("pattern_problem" in policy for policy in policies)
        return Table((*COLUMNS, "pattern_problem") if has_problems else COLUMNS, rows)

    return list_policies


def _dry_run(call: Call, kind: PolicyKind, body: dict[str, object]) -> Answer:
    call.announce(
        f'What {kind.setting} "{body["name"]}" would change in vhost "{call.vhost}" '
        "(nothing is set) ..."
    )
    try:
        changes = call.api.post("warren", kind.path, call.vhost, "dry-run", body=body)
    except NotFound as absent:
        raise no_such_vhost(call.vhost) from absent
    except Refusal as refusal:
        raise _refused(refusal, body) from refusal
    rows = [
        {
            "kind": change["kind"],
            "name": change["name"],
            "key": value["key"],
            "before": _value(value["before"]),
            "after": _value(value["after"]),
            "policy": change["after"][_APPLIED[kind.path]] or "",
        }
        for change in changes
        for value in change["values"] or [_ONLY_THE_NAME]
    ]
    text = "\n".join(_change_lines(rows)) or "Nothing would change"
    return Document(text, changes)


# The policy is another one, and says the same.
_ONLY_THE_NAME: Final = {"key": "", "before": None, "after": None}
_APPLIED: Final = {"policies": "policy", "operator-policies": "operator_policy"}


def _change_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        values = f": {row['key']} {row['before']} -> {row['after']}" if row["key"] else ""
        owner = f"policy '{row['policy']}'" if row["policy"] else "no policy"
        yield f"{row['kind']} '{row['name']}'{values} ({owner})"


def _value(value: object) -> str:
    return "(none)" if value is None else json_text(value)


def explain_policy(call: Call) -> Answer:
    name = call.arguments[0]
    kind = "exchange" if call.flag("exchange") else "queue"
    call.announce(f"Explaining the policies of {kind} '{name}' in vhost '{call.vhost}' ...")
    path = ("warren", f"{kind}s", call.vhost, name or "amq.default", "explain-policy")
    try:
        explained = call.api.get(*path)
    except Refusal as refusal:
        if isinstance(refusal, NotFound):
            raise error(f"no {kind} '{name}' in vhost '{call.vhost}'", Exit.DATA) from refusal
        raise
    return Document("\n".join(_explanation_lines(explained)), explained)


def _explanation_lines(explained: dict[str, Any]) -> Iterator[str]:
    yield f"Policy: {explained['policy'] or '(none)'}"
    yield f"Operator policy: {explained['operator_policy'] or '(none)'}"
    yield f"\n{bold('Effective values')}\n"
    for value in explained["values"]:
        yield f"{value['key']} = {json_text(value['value'])}, from {_origin(value)}"
        for other in value["overridden"]:
            yield f"    prevails over {json_text(other['value'])} from {_origin(other)}"
    if not explained["values"]:
        yield "(none)"
    yield f"\n{bold('Policies considered')}\n"
    for verdict in explained["verdicts"]:
        answer = "applies" if verdict["applies"] else "does not apply"
        yield (
            f"{verdict['kind']} '{verdict['policy']}' (priority {verdict['priority']}) "
            f"{answer}: {verdict['reason']}"
        )
    if not explained["verdicts"]:
        yield "(none)"


def _origin(source: dict[str, Any]) -> str:
    named = f" '{source['policy']}'" if source["policy"] else ""
    return f"{source['origin']}{named}"


_NAME: Final = Argument("name", "policy name (identifier)")
_SET_ARGUMENTS: Final = (
    _NAME,
    Argument("pattern", "regular expression that names of queues and exchanges must match"),
    Argument("definition", 'JSON, for instance {"max-length": 1000}'),
)
_SET_OPTIONS: Final = (
    Option("priority", "the highest of those that match applies; default 0", Kind.INTEGER),
    Option("apply-to", "queues, exchanges or all; default all", Kind.TEXT),
    Option("dry-run", "only say what it would change, queue by queue"),
)


def _verbs_of(kind: PolicyKind, names: tuple[str, str, str], what: str) -> tuple[Verb, ...]:
    return (
        Verb(
            name=names[0],
            family=Family.POLICIES,
            summary=f"Sets or updates {what}",
            run=setting(kind),
            arguments=_SET_ARGUMENTS,
            options=_SET_OPTIONS,
            is_scoped=True,
        ),
        Verb(
            name=names[1],
            family=Family.POLICIES,
            summary=f"Clears (removes) {what}",
            run=clearing(kind),
            arguments=(_NAME,),
            is_scoped=True,
        ),
        Verb(
            name=names[2],
            family=Family.POLICIES,
            summary=f"Lists all {kind.listing} in a virtual host",
            run=listing(kind),
            is_scoped=True,
            is_table=True,
        ),
    )


VERBS: Final = (
    *_verbs_of(POLICIES, ("set_policy", "clear_policy", "list_policies"), "a policy"),
    *_verbs_of(
        OPERATOR_POLICIES,
        ("set_operator_policy", "clear_operator_policy", "list_operator_policies"),
        "an operator policy, which bounds what policies may set",
    ),
    Verb(
        name="explain_policy",
        family=Family.POLICIES,
        summary="Says which policies apply to a queue, why, and where each value comes from",
        run=explain_policy,
        arguments=(Argument("queue", "name of the queue"),),
        options=(Option("exchange", "the name is that of an exchange"),),
        is_scoped=True,
    ),
)
