"""File of settings, in the format of rabbitmq.conf: lines of `key = value`, comments after `#`.

A configuration that is half understood is worse than none: an unknown key or a bad value is an
error, and all of them are told at once, each with its file, line and key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from warren.config.declaring import Setting
from warren.config.pending import PENDING, REFUSED, pending_reader
from warren.config.settings import Config, settings

CONFIG_BYTES_MAX: Final = 1_048_576
_LINE: Final = re.compile(r"([^=#\s]+)\s*=\s*([^#]*)(?:#.*)?")

_DEFAULTS: Final = Config()


class ConfigError(Exception):
    """The configuration cannot be used. The text has a line for each problem."""


class Line(NamedTuple):
    place: str
    key: str
    value: str


@dataclass(slots=True)
class ConfigFile:
    """Content of a file: values by the names of Config's fields, and keys without effect here."""

    values: dict[str, object] = field(default_factory=dict)
    said: dict[str, object] = field(default_factory=dict)
    """The values by their keys in the file."""
    pending: list[str] = field(default_factory=list)

    def config(self) -> Config:
        """Return the configuration, with defaults for what the file does not set."""
        return Config(**self.values)  # type: ignore[arg-type]


def read_config_file(path: Path) -> ConfigFile:
    try:
        raw = path.read_bytes()
        if len(raw) > CONFIG_BYTES_MAX:
            raise ConfigError(f"{path}: larger than {CONFIG_BYTES_MAX} bytes: not a configuration")
        content = raw.decode()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from error
    return parse_config(content, str(path))


def parse_config(content: str, source: str) -> ConfigFile:
    reading = _Reading()
    for line in _lines(content, source, reading.problems):
        reading.take(line)
    if reading.problems:
        raise ConfigError("\n".join(reading.problems))
    return reading.result()


class _Reading:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self._settings = settings()
        self._file = ConfigFile()
        self._members: dict[str, dict[str, object]] = {}

    def take(self, line: Line) -> None:
        try:
            self._assign(line)
        except ValueError as error:
            self.problems.append(f"{line.place}: {line.key}: {error}")

    def _assign(self, line: Line) -> None:
        exact, (owner, _, member) = self._settings.get(line.key), line.key.rpartition(".")
        parent = self._settings.get(owner)
        if exact is not None and exact.combine is None:
            self._set(exact, exact.read(line.value))
        elif exact is not None:
            if line.value != "none":
                raise ValueError(f"expected none, or members such as {line.key}.1 = ...")
            self._members[exact.key] = {}
        elif parent is not None and parent.combine is not None:
            self._members.setdefault(parent.key, {})[member] = parent.read(line.value)
        elif (reader := pending_reader(line.key)) is not None:
            reader(line.value)
            self._file.pending.append(line.key)
        else:
            raise ValueError(f"unknown key{_hint(line.key, self._settings)}")

    def result(self) -> ConfigFile:
        for key, members in self._members.items():
            declared = self._settings[key]
            assert declared.combine is not None
            self._set(declared, declared.combine(members))
        return self._file

    def _set(self, declared: Setting, value: object) -> None:
        values, name = self._file.values, declared.attribute
        self._file.said[declared.key] = value
        if declared.part:
            parts: Any = values.get(name, getattr(_DEFAULTS, name))
            values[name] = replace(parts, **{declared.part: value})
        else:
            values[name] = value


def _lines(content: str, source: str, problems: list[str]) -> Iterator[Line]:
    for number, raw in enumerate(content.splitlines(), start=1):
        stripped, place = raw.strip(), f"{source}:{number}"
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            # Its first word only: a password may stand behind it.
            first, *rest = stripped.split(maxsplit=1)
            said = f"{first} ..." if rest else first
            problems.append(f"{place}: expected key = value, got '{said}'")
        else:
            yield Line(place, match[1], match[2].strip())


def _hint(key: str, known: dict[str, Setting]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, [*known, *PENDING, *REFUSED], n=1)
    return f"; did you mean {near[0]}?" if near else ""
