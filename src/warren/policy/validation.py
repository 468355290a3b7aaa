"""Whether a policy may be set: RabbitMQ's checks, in its order, with its texts.

The parts of a policy are checked each for itself, and all that is wrong is told. Of a definition,
only the first mistake is told: those of one family of keys after the other, and keys that nobody
knows if there is no other.

Beyond RabbitMQ 3.10, what 3.12 and 3.13 take is taken (`consumer-timeout`, `classic_queues`,
operator policies for mirroring), so that their definitions can be imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from warren.model.json_terms import JsonValue, render_json, render_mistake, render_terms
from warren.model.records import Policy
from warren.model.regular_expressions import InvalidPattern, require_pattern
from warren.policy.mirroring import mirroring_problem
from warren.policy.values import (
    CHECKS,
    MASTER_LOCATOR,
    MIRRORING_KEYS,
    OPERATOR_POLICY_KEYS,
    POLICY_KEYS,
    check_master_locator,
)

APPLY_TO: Final = ("queues", "exchanges", "all", "classic_queues", "quorum_queues", "streams")

_NOT_A_PATTERN: Final = "pattern should be regular expression but is invalid: "


class PolicyInvalid(ValueError):
    def __init__(self, problems: list[str]) -> None:
        super().__init__("Validation failed\n\n" + "".join(f"{line}\n" for line in problems))
        self.problems = problems


def require_valid(policy: Policy, operator: bool = False) -> None:
    """Raises PolicyInvalid."""
    parse_policy(policy.vhost, policy.name, policy.terms(), operator)


def parse_policy(
    vhost: str, name: str, terms: Mapping[str, JsonValue], operator: bool = False
) -> Policy:
    """The policy that these terms make; `priority`, `pattern` and `definition` must be there."""
    problems = problems_of(name, terms, operator)
    if problems:
        raise PolicyInvalid(problems)
    pattern, definition = terms["pattern"], terms["definition"]
    priority, apply_to = terms["priority"], terms.get("apply-to", "all")
    assert isinstance(pattern, str), "it was checked"
    assert isinstance(definition, Mapping), "it was checked"
    assert isinstance(priority, int | float), "it was checked"
    assert isinstance(apply_to, str), "it was checked"
    return Policy(vhost, name, pattern, definition, priority, apply_to)


def problems_of(name: str, terms: Mapping[str, JsonValue], operator: bool = False) -> list[str]:
    """A line for each problem; none if the policy may be set."""
    known = POLICY_KEYS if not operator else OPERATOR_POLICY_KEYS
    checks: dict[str, Callable[[JsonValue], str | None]] = {
        "definition": lambda value: definition_problem(value, known),
        "apply-to": _apply_to_problem,
        "pattern": _pattern_problem,
        "priority": _priority_problem,
    }
    problems = []
    strangers = {key: value for key, value in terms.items() if key not in checks}
    if strangers:
        shown = render_terms(strangers, len("Unrecognised terms "))
        problems.append(f"Unrecognised terms {shown} in {name}")
    for key, check in checks.items():
        if key in terms:
            problem = check(terms[key])
            problems += [problem] if problem is not None else []
        elif key != "apply-to":
            problems.append(f'Key "{key}" not found in {name}')
    return problems


def definition_problem(definition: JsonValue, known: frozenset[str]) -> str | None:
    """The first thing wrong with a definition of which these keys are known."""
    if not isinstance(definition, Mapping):
        return f"definition must be a dictionary: {render_json(definition)}"
    if not definition:
        return "no policy provided"
    return _known_problem({k: v for k, v in definition.items() if k in known}) or _unknown_problem(
        {k: v for k, v in definition.items() if k not in known}
    )


def _known_problem(definition: Mapping[str, JsonValue]) -> str | None:
    if MASTER_LOCATOR in definition:
        problem = check_master_locator(definition[MASTER_LOCATOR])
        if problem is not None:
            return problem
    problem = mirroring_problem({k: v for k, v in definition.items() if k in MIRRORING_KEYS})
    if problem is not None:
        return problem
    problems = (CHECKS[key](definition[key]) for key in sorted(definition) if key in CHECKS)
    return next((problem for problem in problems if problem is not None), None)


def _unknown_problem(definition: Mapping[str, JsonValue]) -> str | None:
    if not definition:
        return None
    return f"{render_terms(definition)} are not recognised policy settings"


def _apply_to_problem(value: JsonValue) -> str | None:
    if value in APPLY_TO:
        return None
    shown = value if isinstance(value, str) else render_json(value)
    return f"apply-to '{shown}' unrecognised; should be 'queues', 'exchanges' or 'all'"


def _pattern_problem(value: JsonValue) -> str | None:
    if not isinstance(value, str):
        return f"pattern should be a binary but was {render_json(value)}"
    try:
        require_pattern(value)
    except InvalidPattern as error:
        return _pattern_shown(error)
    return None


def pattern_refused(error: InvalidPattern) -> PolicyInvalid:
    """Return the refusal of a policy because of its pattern."""
    return PolicyInvalid([_pattern_shown(error)])


def _pattern_shown(error: InvalidPattern) -> str:
    shown = render_mistake(error.reason, error.position, len(_NOT_A_PATTERN))
    return f"{_NOT_A_PATTERN}{shown}"


def _priority_problem(value: JsonValue) -> str | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None
    return f"priority should be a number, actually was {render_json(value)}"
