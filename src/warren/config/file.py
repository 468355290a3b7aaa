"""File of settings, in the format of rabbitmq.conf: lines of `key = value`, comments after `#`.

A file whose name ends with `.config` has Erlang terms instead (`erlang_terms`), which are
translated to the same keys (`erlang_keys`). Of several files, a later one goes before an earlier.

A configuration that is half understood is worse than none: an unknown key or a bad value is an
error, and all of them are told at once, each with its file, line and key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from warren.config.declaring import Setting
from warren.config.erlang_keys import Replacement, translate
from warren.config.erlang_terms import ErlangSyntaxError, read_erlang_term
from warren.config.line import Line
from warren.config.pending import PENDING, REFUSED, pending_reader
from warren.config.settings import Config, settings

CONFIG_BYTES_MAX: Final = 1_048_576
ERLANG_SUFFIX: Final = ".config"
_LINE: Final = re.compile(r"([^=#\s]+)\s*=\s*([^#]*)(?:#.*)?")

_DEFAULTS: Final = Config()


class ConfigError(Exception):
    """The configuration cannot be used. The text has a line for each problem."""


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
    return read_config_files([path])


def read_config_files(paths: Sequence[Path]) -> ConfigFile:
    """Read all of these, or raise ConfigError with what is wrong in any of them."""
    reading = _Reading()
    for path in paths:
        reading.read(_content(path), str(path))
    return reading.result()


def parse_config(content: str, source: str) -> ConfigFile:
    reading = _Reading()
    reading.read(content, source)
    return reading.result()


def _content(path: Path) -> str:
    try:
        raw = path.read_bytes()
        if len(raw) > CONFIG_BYTES_MAX:
            raise ConfigError(f"{path}: larger than {CONFIG_BYTES_MAX} bytes: not a configuration")
        return raw.decode()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from error


class _Reading:
    def __init__(self) -> None:
        self._problems: list[str] = []
        self._settings = settings()
        self._file = ConfigFile()
        self._members: dict[str, dict[str, object]] = {}

    def read(self, content: str, source: str) -> None:
        if source.endswith(ERLANG_SUFFIX):
            self._read_erlang(content, source)
            return
        for line in _lines(content, source, self._problems):
            self._take(line)

    def _read_erlang(self, content: str, source: str) -> None:
        try:
            term = read_erlang_term(content)
        except ErlangSyntaxError as error:
            self._problems.append(f"{source}:{error}")
            return
        for replacement in translate(term, source, self._problems):
            self._replace(replacement)

    def _replace(self, replacement: Replacement) -> None:
        for prefix in replacement.replaces:
            self._forget(prefix)
        for line in replacement.lines:
            self._take(line)
        self._file.pending += replacement.pending

    def _forget(self, prefix: str) -> None:
        """Drop whatever was said of a key and of all keys below it."""

        def is_below(key: str) -> bool:
            return key == prefix or key.startswith(f"{prefix}.")

        for declared in filter(lambda declared: is_below(declared.key), self._settings.values()):
            self._members.pop(declared.key, None)
            self._file.said.pop(declared.key, None)
            if declared.part and declared.attribute in self._file.values:
                # A key of a family: the others of the family stay.
                self._set_part(declared, declared.value_in(_DEFAULTS))
            else:
                self._file.values.pop(declared.attribute, None)
        self._file.pending = [key for key in self._file.pending if not is_below(key)]

    def _take(self, line: Line) -> None:
        try:
            self._assign(line)
        except ValueError as error:
            self._problems.append(f"{line.place}: {line.key}: {error}")

    def _assign(self, line: Line) -> None:
        exact, (owner, _, member) = self._settings.get(line.key), line.key.rpartition(".")
        parent = self._settings.get(owner)
        if exact is None and (deep := self._deep_group(line.key)) is not None:
            parent, member = deep, line.key.removeprefix(f"{deep.key}.")
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
            raise ValueError(f"unknown key{_hint(line, self._settings)}")

    def _deep_group(self, key: str) -> Setting | None:
        for declared in self._settings.values():
            if declared.is_deep and key.startswith(f"{declared.key}."):
                return declared
        return None

    def result(self) -> ConfigFile:
        for key, members in self._members.items():
            declared = self._settings[key]
            assert declared.combine is not None
            try:
                self._set(declared, declared.combine(members))
            except ValueError as error:
                self._problems.append(f"{key}: {error}")
        if self._problems:
            raise ConfigError("\n".join(self._problems))
        return self._file

    def _set(self, declared: Setting, value: object) -> None:
        self._file.said[declared.key] = value
        if declared.part:
            self._set_part(declared, value)
        else:
            self._file.values[declared.attribute] = value

    def _set_part(self, declared: Setting, value: object) -> None:
        values, name = self._file.values, declared.attribute
        parts: Any = values.get(name, getattr(_DEFAULTS, name))
        values[name] = replace(parts, **{declared.part: value})


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


def _hint(line: Line, known: dict[str, Setting]) -> str:
    from difflib import get_close_matches

    near = [key for key, declared in known.items() if _would_take(line, key, declared)]
    near = near or get_close_matches(line.key, [*known, *PENDING, *REFUSED], n=1)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _would_take(line: Line, key: str, declared: Setting) -> bool:
    """True for a key just below the unknown one that can be set to this value."""
    if key.rpartition(".")[0] != line.key or declared.combine is not None:
        return False
    try:
        declared.read(line.value)
    except ValueError:
        return False
    return True
