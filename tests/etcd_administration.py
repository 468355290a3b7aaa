"""Administration of an etcd by tests: requests that a broker never sends."""

from __future__ import annotations

from warren.metadata.etcd_messages import Method
from warren.metadata.protobuf_wire import integer, octets


def _nothing(encoded: bytes) -> None:
    """Skip an answer that says no more than that it was done."""


COMPACT = Method("/etcdserverpb.KV/Compact", _nothing)
USER_ADD = Method("/etcdserverpb.Auth/UserAdd", _nothing)
ROLE_ADD = Method("/etcdserverpb.Auth/RoleAdd", _nothing)
USER_GRANT_ROLE = Method("/etcdserverpb.Auth/UserGrantRole", _nothing)
AUTH_ENABLE = Method("/etcdserverpb.Auth/AuthEnable", _nothing)


def compaction_request(revision: int) -> bytes:
    """Remove history before `revision`, and answer when it is gone from the disk."""
    return integer(1, revision) + integer(2, True)


def user_request(name: str, password: str) -> bytes:
    return octets(1, name.encode()) + octets(2, password.encode())


def role_request(name: str) -> bytes:
    return octets(1, name.encode())


def grant_request(user: str, role: str) -> bytes:
    return octets(1, user.encode()) + octets(2, role.encode())
