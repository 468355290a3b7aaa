"""Sources of a node's configuration: the files that it reads, found as RabbitMQ finds its own.

- the main file: `--config`, or else RABBITMQ_CONFIG_FILE, whose name may lack `.conf` or `.config`;
- advanced.config: RABBITMQ_ADVANCED_CONFIG_FILE, or else the file of that name beside the main one.
  Its keys go before those of the main file. As in RabbitMQ, it is not read if the main file has
  Erlang terms itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from warren.config.file import ERLANG_SUFFIX

MAIN_VARIABLE: Final = "RABBITMQ_CONFIG_FILE"
ADVANCED_VARIABLE: Final = "RABBITMQ_ADVANCED_CONFIG_FILE"
ADVANCED_NAME: Final = "advanced.config"
_MAIN_SUFFIXES: Final = (".conf", ERLANG_SUFFIX)


def config_files(given: Path | None, environment: Mapping[str, str]) -> list[Path]:
    """Return the files to read, in order; a later one goes before an earlier one.

    A file that is named and missing is returned all the same: reading it says so.
    """
    main = given or _named(environment.get(MAIN_VARIABLE), _MAIN_SUFFIXES)
    if main is not None and main.name.endswith(ERLANG_SUFFIX):
        return [main]
    advanced = _named(environment.get(ADVANCED_VARIABLE), (ERLANG_SUFFIX,))
    if advanced is None and main is not None and (main.parent / ADVANCED_NAME).is_file():
        advanced = main.parent / ADVANCED_NAME
    return [path for path in (main, advanced) if path is not None]


def _named(name: str | None, suffixes: tuple[str, ...]) -> Path | None:
    """Return the file that a variable names, with the first suffix that such a file has."""
    if not name:
        return None
    path = Path(name)
    if path.name.endswith(suffixes):
        return path
    candidates = [path.with_name(path.name + suffix) for suffix in suffixes]
    fallback = path if path.is_file() else candidates[0]
    return next((each for each in candidates if each.is_file()), fallback)
