"""Users, and the limits that users and vhosts live under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from warren.auth.passwords import SHA256

if TYPE_CHECKING:
    from warren.auth.authorization import Authorization
    from warren.auth.backends import Attempt

# May publish with a user-id property that is not its own name.
IMPERSONATOR: Final = "impersonator"
ADMINISTRATOR: Final = "administrator"

MAX_CONNECTIONS: Final = "max-connections"
MAX_CHANNELS: Final = "max-channels"
MAX_QUEUES: Final = "max-queues"
USER_LIMITS: Final = frozenset({MAX_CONNECTIONS, MAX_CHANNELS})
VHOST_LIMITS: Final = frozenset({MAX_CONNECTIONS, MAX_QUEUES})

NO_LIMITS: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class User:
    """As known at login. An empty `password_hash` means that no password fits."""

    name: str
    password_hash: str = field(default="", repr=False)
    hashing_algorithm: str = SHA256
    tags: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=lambda: NO_LIMITS, hash=False)
    origin: str = ""
    """Name of the backend that let the user in; empty for the internal one."""
    authorization: Authorization | None = field(default=None, compare=False, repr=False)
    """Asked for permissions, in place of the internal backend; None: that one is asked."""
    proof: Attempt | None = field(default=None, compare=False, repr=False)
    """Login of a user of another backend: another node of the cluster repeats it, if asked."""

    @property
    def may_impersonate(self) -> bool:
        return IMPERSONATOR in self.tags


@dataclass(frozen=True, slots=True)
class Vhost:
    """`default_queue_type` is for queues declared without one; "" says that there is none."""

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""
    tracing: bool = False


def effective_limit(limits: Mapping[str, int], name: str) -> int | None:
    """None if there is no limit, which a negative number says too."""
    value = limits.get(name, -1)
    return None if value < 0 else value
