"""Reference of all settings as a document, made from the declarations that read the file."""

from __future__ import annotations

from typing import Final

from warren.config.declaring import Setting
from warren.config.pending import PENDING, REFUSED, Refusal
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
REFUSED_HEADING: Final = """
## Refused

These keys would change who is let in, and Warren cannot do what they ask for. A node that ignored
them would be open to those whom they lock out, so it does not start, and says which line to change.

| key | accepted with | otherwise |
|---|---|---|
"""


def shown(value: object) -> str:
    """Return a value as it is written in the file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return ", ".join(map(str, value)) or "none"
    return "" if value is None else str(value)


def rows() -> list[tuple[str, str, str]]:
    """Return key, default and meaning of every setting."""
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
    refused = [_refused(key, refusal) for key, refusal in REFUSED.items()]
    parts = (HEADING, lines), (PENDING_HEADING, pending), (REFUSED_HEADING, refused)
    return "".join(f"{heading}{chr(10).join(rows)}\n" for heading, rows in parts)


def _refused(key: str, refusal: Refusal) -> str:
    accepted = ", ".join(f"`{value}`" for value in refusal.accepted)
    return f"| `{key}` | {accepted or 'nothing'} | {refusal.remedy} |"


def _key(setting: Setting) -> str:
    return setting.key if setting.combine is None else f"{setting.key}.$name"


def _default(value: object) -> str:
    return shown(value).replace("|", "\\|")
