"""Virtual hosts, users and queues of the security audit, put into a broker by its HTTP API."""

from __future__ import annotations

import json
from typing import Any, Final

from bench.attackers import HARD_NAME, PASSWORD, Target

QUEUES: Final = 2_000
# Long names, so that a pattern with several repetitions has many ways to fail.
LONG_NAME: Final = "x" * 60
USERS: Final = {
    "a-mgmt": "management", "a-pol": "policymaker", "a-mon": "monitoring", "a-app": "", "b-app": "",
}  # fmt: skip


def admit_tenants(target: Target) -> None:
    """Raises RuntimeError."""
    answer = target.ask("guest", "POST", "/api/definitions", json.dumps(_definitions()).encode())
    if answer != "204":
        raise RuntimeError(f"the definitions are not taken: {answer}")


def _definitions() -> dict[str, Any]:
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    names = [HARD_NAME, *(f"q.{number}.{LONG_NAME}" for number in range(QUEUES))]
    return {
        "vhosts": [{"name": "a"}, {"name": "b"}],
        "users": [
            {"name": name, "password": PASSWORD, "tags": tags} for name, tags in USERS.items()
        ],
        "permissions": [{"user": name, "vhost": name[0], **everything} for name in USERS],
        "queues": [
            {"name": name, "vhost": "a", "durable": True, "auto_delete": False, "arguments": {}}
            for name in names
        ],
    }
