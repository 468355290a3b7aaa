"""What set_policy takes for granted, and what it will not take (9-07)."""

from __future__ import annotations

import json

import pytest

from acceptance.control import Control


def test_9_07_a_policy_is_for_everything_of_the_default_virtual_host_with_priority_0(
    control: Control,
) -> None:
    said = control.ok("set_policy plain ^policy-verbs$", '{"max-length":5}').out
    try:
        assert said == (
            'Setting policy "plain" for pattern "^policy-verbs$" to "{"max-length":5}" with '
            'priority "0" for vhost "/" ...\n'
        )
        listed = json.loads(control.ok("list_policies --formatter json").out)
        assert [policy for policy in listed if policy["name"] == "plain"] == [
            {
                "vhost": "/",
                "name": "plain",
                "pattern": "^policy-verbs$",
                "apply-to": "all",
                "definition": '{"max-length":5}',
                "priority": 0,
            }
        ]
    finally:
        control.ok("clear_policy plain")


@pytest.mark.parametrize("arguments", ["", "p", "p ^q", "p ^q {} more"])
def test_9_07_set_policy_takes_three_arguments(control: Control, arguments: str) -> None:
    refused = control(f"set_policy {arguments}")
    assert refused.code == 64
    assert "Error" in refused.err
