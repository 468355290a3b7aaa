"""Declaring settings: each is a field of a dataclass with its key, its reader and its meaning.

A group is a setting with members (`listeners.tcp.1`, `listeners.tcp.2`). A family is a dataclass of
settings that several parts have each for itself, such as the options of TLS: its keys stand behind
that part's own (`ssl_options.certfile`, `management.ssl.certfile`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, cast

from warren.config.values import Reader

T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of the file. A group has members `key.NAME`, and `key = none` empties it."""

    key: str
    read: Reader[object]
    meaning: str
    combine: Callable[[dict[str, object]], object] | None = None
    attribute: str = ""
    is_secret: bool = False
    is_deep: bool = False
    """Members of the group may have dots in their names: `key.1.authn`."""
    part: str = ""
    """Field of the family that the setting belongs to, if any; `attribute` is the family then."""

    def value_in(self, config: object) -> object:
        value = getattr(config, self.attribute)
        return getattr(value, self.part) if self.part else value


def setting(key: str, read: Reader[T], default: T, meaning: str) -> T:
    return field(default=default, metadata={"setting": Setting(key, read, meaning)})


def secret(key: str, read: Reader[T], default: T, meaning: str) -> T:
    """A setting that is never shown."""
    declared = Setting(key, read, meaning, is_secret=True)
    return field(default=default, repr=False, metadata={"setting": declared})


def group(
    key: str, read: Reader[V], default: T, combine: Callable[[Mapping[str, V]], T], meaning: str
) -> T:
    declared = Setting(key, read, meaning, cast("Callable[[dict[str, object]], object]", combine))
    return field(default=default, metadata={"setting": declared})


def deep_group(
    key: str, read: Reader[V], default: T, combine: Callable[[Mapping[str, V]], T], meaning: str
) -> T:
    """A group whose members have names with dots."""
    whole = cast("Callable[[dict[str, object]], object]", combine)
    declared = Setting(key, read, meaning, whole, is_deep=True)
    return field(default=default, metadata={"setting": declared})


def family(key: str) -> dict[str, str]:
    """Metadata of a field whose default is of a family's class: `key` stands before its keys."""
    return {"family": key}


def declared_in(config_class: type[Any]) -> Iterator[Setting]:
    """Yield every setting of a configuration class, those of families included, in order."""
    for declared in fields(config_class):
        own = declared.metadata.get("setting")
        prefix = declared.metadata.get("family")
        if isinstance(own, Setting):
            yield replace(own, attribute=declared.name)
        elif prefix is not None:
            for part in declared_in(type(declared.default)):
                key = f"{prefix}.{part.key}"
                yield replace(part, key=key, attribute=declared.name, part=part.attribute)


def in_order(members: Mapping[str, V]) -> tuple[V, ...]:
    """Return the values of the members of a group, in the order of the file."""
    return tuple(members.values())


def switched_on(members: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the names of the members of a group that are set to true."""
    return tuple(name for name, is_on in members.items() if is_on)
