"""The settings as a document, made from the same declarations that read the file."""

from __future__ import annotations

from typing import Final

from warren.config.declaring import Setting
from warren.config.pending import PENDING
from warren.config.settings import Config, settings

HEADING: Final = """# Configuration

`warren server --config FILE` reads RabbitMQ's `rabbitmq.conf` format: a `key = value` a line,
`#` before comments. `warren check-config FILE` says whether a file is right. This page is what
`warren settings --markdown` prints, and a test holds it to that.

## Settings

| key | default | meaning |
|---|---|---|
"""
PENDING_HEADING: Final = """
## Understood, without effect

These keys of RabbitMQ are checked and accepted, so that an existing file loads; the log says that
they change nothing. `$x` stands for any name.

"""


def shown(value: object) -> str:
    """A value as the file would have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return ", ".join(map(str, value)) or "none"
    return "" if value is None else str(value)


def rows() -> list[tuple[str, str, str]]:
    """Key, default and meaning of every setting."""
    defaults = Config()
    return [
        (_key(setting), _default(setting.value_in(defaults)), setting.meaning)
        for setting in settings().values()
    ]


def reference() -> str:
    lines = [
        f"| `{key}` | {f'`{value}`' if value else ''} | {text} |" for key, value, text in rows()
    ]
    pending = [f"- `{key}`" for key in PENDING]
    return HEADING + "\n".join(lines) + "\n" + PENDING_HEADING + "\n".join(pending) + "\n"


def _key(setting: Setting) -> str:
    return setting.key if setting.combine is None else f"{setting.key}.$name"


def _default(value: object) -> str:
    return shown(value).replace("|", "\\|")
