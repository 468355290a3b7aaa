"""What a verb is, and how it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from warren.cli.ctl.call import Call
    from warren.cli.ctl.formatting import Answer


class Exit(IntEnum):
    """rabbitmqctl's exit codes, which are those of sysexits.h."""

    OK = 0
    USAGE = 64
    DATA = 65
    NO_USER = 67
    UNAVAILABLE = 69
    SOFTWARE = 70
    TEMPORARY = 75
    CONFIG = 78


class Failure(Exception):
    """Ends a verb: `text` goes to stderr as it is, `code` becomes the exit code.

    RabbitMQ's tools end differently for the same mistake in different verbs; `rabbitmq_code` is
    what they say, for scripts that call this program by the name of such a tool. `hint` is what
    they do not say, for everybody else: which thing is meant, and what to do.
    """

    def __init__(
        self,
        text: str,
        code: Exit = Exit.UNAVAILABLE,
        rabbitmq_code: Exit | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.hint = hint
        self.rabbitmq_code = code if rabbitmq_code is None else rabbitmq_code


class WrongUsage(Exception):
    """The command line makes no sense; the verb's usage is shown with the reason."""

    def __init__(self, reason: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code


def error(
    text: str, code: Exit = Exit.UNAVAILABLE, rabbitmq_code: Exit | None = None, hint: str = ""
) -> Failure:
    """A failure with rabbitmqctl's heading."""
    return Failure(f"Error:\n{text}", code, rabbitmq_code, hint)


def no_such_queue(
    text: str, queue: str, vhost: str, rabbitmq_code: Exit = Exit.UNAVAILABLE
) -> Failure:
    """RabbitMQ's word for it, which scripts compare, and which queue is meant."""
    hint = f"there is no queue '{queue}' in vhost '{vhost}'"
    return error(text, Exit.DATA, rabbitmq_code, hint)


def no_such_vhost(vhost: str) -> Failure:
    return Failure(f"Virtual host '{vhost}' does not exist", Exit.DATA)


class Family(Enum):
    """The headings of `warrenctl help`, in its order."""

    HELP = "Help"
    NODES = "Nodes"
    CLUSTER = "Cluster"
    REPLICATION = "Replication"
    USERS = "Users"
    ACCESS = "Access Control"
    MONITORING = "Monitoring, observability and health checks"
    PARAMETERS = "Parameters"
    POLICIES = "Policies"
    VHOSTS = "Virtual hosts"
    CONFIGURATION = "Configuration and Environment"
    DEFINITIONS = "Definitions"
    OPERATIONS = "Operations"
    QUEUES = "Queues"
    FEATURE_FLAGS = "Feature flags"
    PLUGINS = "Plugin Management"


class Contact(Enum):
    """The node that a verb needs, before it begins."""

    NODE = "a node that answers: the one at the address, and the one that -n names"
    OWN = "the verb looks by itself: it waits for a node, or can do without"
    NONE = "no node is asked"


class Kind(Enum):
    """What follows an option."""

    FLAG = "flag"
    TEXT = "text"
    INTEGER = "integer"


@dataclass(frozen=True)
class Option:
    name: str
    help: str
    kind: Kind = Kind.FLAG
    short: str | None = None
    metavar: str | None = None

    @property
    def usage(self) -> str:
        if self.kind is Kind.FLAG:
            return f"--{self.name}"
        return f"--{self.name} <{self.metavar or self.name}>"


@dataclass(frozen=True)
class Argument:
    """`is_rest`: any number of them, and the last one."""

    name: str
    help: str
    is_optional: bool = False
    is_rest: bool = False

    @property
    def usage(self) -> str:
        if self.is_rest:
            return f"[<{self.name}> ...]"
        return f"[<{self.name}>]" if self.is_optional else f"<{self.name}>"


@dataclass(frozen=True, kw_only=True)
class Verb:
    """`is_scoped`: works in one virtual host. `is_table`: its answer has columns to head.

    `is_endless`: goes on until it is interrupted, if no `--timeout` is given.
    """

    name: str
    family: Family
    summary: str
    run: Callable[[Call], Answer]
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    is_scoped: bool = False
    is_table: bool = False
    contact: Contact = Contact.NODE
    timeout_s: float | None = None
    is_endless: bool = False
    columns: tuple[str, ...] = ()
    usage_of_arguments: str | None = None
    notes: str = ""

    @property
    def arguments_min(self) -> int:
        return sum(not (a.is_optional or a.is_rest) for a in self.arguments)

    @property
    def arguments_max(self) -> int | None:
        return None if any(a.is_rest for a in self.arguments) else len(self.arguments)

    @property
    def usage(self) -> str:
        parts = [self.name]
        if self.is_scoped:
            parts.append("[--vhost <vhost>]")
        parts += [f"[{option.usage}]" for option in self.options]
        if self.is_table:
            parts.append("[--no-table-headers]")
        if self.usage_of_arguments is not None:
            parts.append(self.usage_of_arguments)
        else:
            parts += [argument.usage for argument in self.arguments]
        return " ".join(parts)


# Which verbs the answers of a formatter speak to programs, not people: no banner then.
QUIET_FORMATTERS: Final = frozenset({"json", "csv"})
Json = Mapping[str, "object"]
