"""Where things are kept: `kind/part/part`, each part percent-encoded, so that any name is safe.

A prefix ends with a slash, so the things of vhost `a` are not found among those of `ab`. Kinds
come first: what a node reads at its start are all the vhosts, then all exchanges of one, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from hashlib import sha256
from typing import Final
from urllib.parse import quote, unquote

from warren.model.fields import Table
from warren.model.records import BindingRecord
from warren.wire.tables import encode_table

NAMES_CACHED_MAX: Final = 8_192
PARSED_KEPT_MAX: Final = 512
_DIGEST_CHARS: Final = 32


class KeyKind(Enum):
    """The first part of a key; the parts that follow it are named behind."""

    # Each member exists once. Enum would hash its name, by a call, for every key of a binding.
    __hash__ = object.__hash__

    VHOST = "vhost"  # vhost
    USER = "user"  # user
    PERMISSION = "permission"  # vhost, user
    TOPIC_PERMISSION = "topic-permission"  # vhost, user, exchange
    VHOST_LIMIT = "vhost-limit"  # vhost
    USER_LIMIT = "user-limit"  # user
    EXCHANGE = "exchange"  # vhost, exchange
    QUEUE = "queue"  # vhost, queue
    BINDING = "binding"  # vhost, source, destination kind, destination, routing key, arguments
    POLICY = "policy"  # vhost, policy
    OPERATOR_POLICY = "operator-policy"  # vhost, policy
    GLOBAL_PARAMETER = "global-parameter"  # parameter
    SEED = "seed"  # what was seeded
    NODE = "node"  # node
    NODE_STATE = "node-state"  # node
    MEMBER = "member"  # node
    GROUP = "group"  # vhost, queue
    CHOSEN_NODES = "chosen-nodes"  # vhost, queue
    CURSOR = "cursor"  # vhost, queue, group of readers
    LOCK = "lock"  # what only one node may do at a time


_PARTS: Final = {
    KeyKind.VHOST: 1,
    KeyKind.USER: 1,
    KeyKind.PERMISSION: 2,
    KeyKind.TOPIC_PERMISSION: 3,
    KeyKind.VHOST_LIMIT: 1,
    KeyKind.USER_LIMIT: 1,
    KeyKind.EXCHANGE: 2,
    KeyKind.QUEUE: 2,
    KeyKind.BINDING: 6,
    KeyKind.POLICY: 2,
    KeyKind.OPERATOR_POLICY: 2,
    KeyKind.GLOBAL_PARAMETER: 1,
    KeyKind.SEED: 1,
    KeyKind.NODE: 1,
    KeyKind.NODE_STATE: 1,
    KeyKind.MEMBER: 1,
    KeyKind.GROUP: 2,
    KeyKind.CHOSEN_NODES: 2,
    KeyKind.CURSOR: 3,
    KeyKind.LOCK: 1,
}
_KINDS: Final = {kind.value: kind for kind in KeyKind}


@dataclass(frozen=True, slots=True)
class ParsedKey:
    kind: KeyKind
    parts: tuple[str, ...]


# Everybody who watches the store takes the same few keys apart.
@lru_cache(maxsize=PARSED_KEPT_MAX)
def parse_key(key: str) -> ParsedKey | None:
    """None for a key that is not of these kinds: a newer version may keep more than we know."""
    name, *parts = key.split("/")
    kind = _KINDS.get(name)
    if kind is None or len(parts) != _PARTS[kind]:
        return None
    return ParsedKey(kind, tuple(map(_decode, parts)))


def prefix(kind: KeyKind, *parts: str) -> str:
    """What all keys of a kind start with that have these first parts."""
    assert len(parts) < _PARTS[kind], "a prefix leaves something open"
    return "".join(f"{part}/" for part in (kind.value, *map(_encode, parts)))


def vhost_key(vhost: str) -> str:
    return _key(KeyKind.VHOST, vhost)


def user_key(user: str) -> str:
    return _key(KeyKind.USER, user)


def permission_key(vhost: str, user: str) -> str:
    return _key(KeyKind.PERMISSION, vhost, user)


def topic_permission_key(vhost: str, user: str, exchange: str) -> str:
    return _key(KeyKind.TOPIC_PERMISSION, vhost, user, exchange)


def vhost_limit_key(vhost: str) -> str:
    return _key(KeyKind.VHOST_LIMIT, vhost)


def user_limit_key(user: str) -> str:
    return _key(KeyKind.USER_LIMIT, user)


def exchange_key(vhost: str, name: str) -> str:
    return _key(KeyKind.EXCHANGE, vhost, name)


def queue_key(vhost: str, name: str) -> str:
    return _key(KeyKind.QUEUE, vhost, name)


def binding_key(binding: BindingRecord) -> str:
    return _key(
        KeyKind.BINDING,
        binding.vhost,
        binding.source,
        binding.destination.kind.value,
        binding.destination.name,
        binding.routing_key,
        _digest(binding.arguments),
    )


def policy_key(vhost: str, name: str, operator: bool = False) -> str:
    return _key(KeyKind.OPERATOR_POLICY if operator else KeyKind.POLICY, vhost, name)


def global_parameter_key(name: str) -> str:
    return _key(KeyKind.GLOBAL_PARAMETER, name)


def seed_key(what: str) -> str:
    return _key(KeyKind.SEED, what)


def node_key(name: str) -> str:
    return _key(KeyKind.NODE, name)


def node_state_key(name: str) -> str:
    return _key(KeyKind.NODE_STATE, name)


def group_key(vhost: str, queue: str) -> str:
    """Of the copies of a mirrored queue."""
    return _key(KeyKind.GROUP, vhost, queue)


def chosen_nodes_key(vhost: str, queue: str) -> str:
    """Key of the nodes that an operator chose for a quorum queue's copies."""
    return _key(KeyKind.CHOSEN_NODES, vhost, queue)


def lock_key(what: str) -> str:
    """Put with the lease of whoever does it."""
    return _key(KeyKind.LOCK, what)


def cursor_key(vhost: str, queue: str, group: str) -> str:
    """Of a group of readers in a stream."""
    return _key(KeyKind.CURSOR, vhost, queue, group)


def member_key(name: str) -> str:
    return _key(KeyKind.MEMBER, name)


def _key(kind: KeyKind, *parts: str) -> str:
    assert len(parts) == _PARTS[kind]
    return "/".join((kind.value, *map(_encode, parts)))


# The same few names occur in most keys.
@lru_cache(maxsize=NAMES_CACHED_MAX)
def _encode(part: str) -> str:
    return quote(part, safe="")


@lru_cache(maxsize=NAMES_CACHED_MAX)
def _decode(part: str) -> str:
    return unquote(part, errors="strict")


def _digest(arguments: Table) -> str:
    """Arguments in another order are the same, as in RabbitMQ, which sorts them by name."""
    if not len(arguments):
        return ""
    ordered = Table(sorted(arguments, key=lambda item: item[0]))
    return sha256(encode_table(ordered)).hexdigest()[:_DIGEST_CHARS]
