"""Reference of all settings as a document, made from the declarations that read the file."""

from __future__ import annotations

from typing import Final

from warren.config.declaring import Setting
from warren.config.pending import PENDING, REFUSED, Refusal
from warren.config.settings import Config, settings

HEADING: Final = """# Configuration

`warren server --config FILE` reads RabbitMQ's `rabbitmq.conf` format: a `key = value` a line,
`#` before comments. `warren check-config FILE` says whether a file is right, and `warrenctl status`
which files a node has read. This page is what `warren settings --markdown` prints, and a test holds
it to that.

## Files

| file | format | found by |
|---|---|---|
| `rabbitmq.conf`, or any other name | `key = value` | `--config`, else `RABBITMQ_CONFIG_FILE` |
| `rabbitmq.config`, or any name that ends with `.config` | Erlang terms | the same |
| `advanced.config` | Erlang terms | `RABBITMQ_ADVANCED_CONFIG_FILE`, else beside `rabbitmq.conf` |

Without any of these a node has the defaults. `RABBITMQ_...` are environment variables; the ends of
the names that they hold (`.conf`, `.config`) may be left out. Keys of `advanced.config` go before
those of `rabbitmq.conf`; as in RabbitMQ, it is not read beside a main file of Erlang terms.

Erlang terms set the same settings. A key of `{rabbit, [...]}` has the name that it has in
`rabbitmq.conf`, and these have another, or values in a form of their own:

| Erlang | `rabbitmq.conf` |
|---|---|
"""
ERLANG_HEADING: Final = """
A key of Erlang replaces all that `rabbitmq.conf` says under it. Binaries (`<<"text">>`) and
strings are the same. Of other applications, these count: `rabbitmq_management` (`listener`,
`tcp_config`, `ssl_config`, `load_definitions`), `rabbitmq_prometheus` (`tcp_config`) and `kernel`
(`net_ticktime`); all else of RabbitMQ's applications and plug-ins is taken without effect, and said
in the log. Unknown keys and applications are errors. Encrypted values (`{encrypted, ...}`) are not
read.

## Settings

| key | default | meaning |
|---|---|---|
"""
ERLANG: Final = (
    ('{tcp_listeners, [5672, {"127.0.0.1", 5673}]}', "listeners.tcp.1 = 5672 ..."),
    ("{ssl_listeners, [5671]}", "listeners.ssl.1 = 5671"),
    ('{ssl_options, [{certfile, "cert.pem"}, ...]}', "ssl_options.certfile = cert.pem ..."),
    ("{tcp_listen_options, [{backlog, 128}, ...]}", "tcp_listen_options.backlog = 128 ..."),
    ("{vm_memory_high_watermark, 0.4}", "vm_memory_high_watermark.relative = 0.4"),
    ('{vm_memory_high_watermark, {absolute, "2GB"}}', "vm_memory_high_watermark.absolute = 2GB"),
    ("{disk_free_limit, 50000000}", "disk_free_limit.absolute = 50000000"),
    ("{disk_free_limit, {mem_relative, 1.0}}", "disk_free_limit.relative = 1.0"),
    ('{loopback_users, [<<"guest">>]}', "loopback_users.guest = true"),
    ("{loopback_users, []}", "loopback_users = none"),
    ("{default_user_tags, [administrator]}", "default_user_tags.administrator = true"),
    (
        '{default_permissions, [<<"conf">>, <<"write">>, <<"read">>]}',
        "default_permissions.configure = conf ...",
    ),
    ("{auth_mechanisms, ['PLAIN']}", "auth_mechanisms.1 = PLAIN"),
    ("{consumer_timeout, undefined}", "consumer_timeout = 0"),
    ("{connection_max, infinity}", "connection_max = 0"),
    ("{log, [{console, [{level, info}]}]}", "log.console.level = info"),
    ("{log_levels, [{connection, error}]}", "log.connection.level = error"),
)
"""Keys of Erlang files and the lines of rabbitmq.conf that say the same; a test reads them."""
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
    erlang = [f"| `{term}` | `{line}` |" for term, line in ERLANG]
    parts = (
        (HEADING, erlang),
        (ERLANG_HEADING, lines),
        (PENDING_HEADING, pending),
        (REFUSED_HEADING, refused),
    )
    return "".join(f"{heading}{chr(10).join(rows)}\n" for heading, rows in parts)


def _refused(key: str, refusal: Refusal) -> str:
    accepted = ", ".join(f"`{value}`" for value in refusal.accepted)
    return f"| `{key}` | {accepted or 'nothing'} | {refusal.remedy} |"


def _key(setting: Setting) -> str:
    return setting.key if setting.combine is None else f"{setting.key}.$name"


def _default(value: object) -> str:
    return shown(value).replace("|", "\\|")
