"""rabbitmq-plugins' verbs: what RabbitMQ has as plug-ins and a node has built in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Document
from warren.cli.ctl.verbs import Argument, Exit, Family, Option, Verb, WrongUsage, error
from warren.model.regular_expressions import InvalidPattern, require_pattern

HELP: Final = "plug-ins cannot be added or removed: 'rabbitmq-plugins list' shows what is built in"


def list_plugins(call: Call) -> Answer:
    pattern = call.argument(0) or ".*"
    try:
        wanted = require_pattern(pattern)
    except InvalidPattern as fault:
        raise WrongUsage(f"pattern '{pattern}': {fault.reason}", Exit.DATA) from fault
    call.announce(f'Listing plugins with pattern "{pattern}" ...')
    names = [name for name in _enabled(call) if wanted.matches_name(name)]
    version = str(call.overview["rabbitmq_version"])
    if call.flag("minimal"):
        return Document("\n".join(names), names)
    width = max(map(len, names), default=0)
    lines = [f"[E*] {name:<{width}} {version}" for name in names]
    if not call.is_quiet:
        lines[:0] = [
            " Configured: E = explicitly enabled; e = implicitly enabled",
            f" | Status: * = running on {call.node}",
            " |/",
        ]
    return Document("\n".join(lines), [{"name": n, "version": version} for n in names])


def is_enabled(call: Call) -> Answer:
    asked = call.arguments
    verb = f"plugin {asked[0]} is" if len(asked) == 1 else f"plugins {', '.join(asked)} are"
    call.announce(f"Asking node {call.node} if {verb} enabled...")
    enabled = _enabled(call)
    if missing := [name for name in asked if name not in enabled]:
        few = f"Plugin {missing[0]} is" if len(missing) == 1 else f"Plugins {_named(missing)} are"
        raise error(
            f"{few} not enabled on node {call.node}. "
            f"Enabled plugins and dependencies: {', '.join(enabled)}"
        )
    few = f"Plugin {asked[0]} is" if len(asked) == 1 else f"Plugins {', '.join(asked)} are"
    return f"{few} enabled on node {call.node}"


def enable(call: Call) -> Answer:
    _announce(call, "Enabling")
    return _enable(call)


def set_plugins(call: Call) -> Answer:
    _announce(call, "Enabling")
    return _enable(call)


def disable(call: Call) -> Answer:
    _announce(call, "Disabling")
    if built_in := [name for name in call.arguments if name in _enabled(call)]:
        raise error(f"{_named(built_in)} cannot be disabled: built in; {HELP}")
    return _unchanged(call)


def _enable(call: Call) -> Answer:
    enabled = _enabled(call)
    if missing := [name for name in call.arguments if name not in enabled]:
        atoms = ", ".join(f":{name}" for name in missing)
        raise error(f"{{:plugins_not_found, [{atoms}]}}: {HELP}", Exit.SOFTWARE)
    return _unchanged(call)


def _announce(call: Call, what: str) -> None:
    names = "\n".join(call.arguments)
    call.announce(f"{what} plugins on node {call.node}:\n{names}")


def _unchanged(call: Call) -> str:
    return "\n".join(_configured(call))


def _configured(call: Call) -> Iterator[str]:
    yield "The following plugins have been configured:"
    yield from (f"  {name}" for name in _enabled(call))
    yield f"Applying plugin configuration to {call.node}..."
    yield "Plugin configuration unchanged."


def _enabled(call: Call) -> list[str]:
    node: dict[str, Any] = call.api.get("nodes", call.node)
    return sorted(node.get("enabled_plugins", []))


def _named(names: list[str]) -> str:
    return ", ".join(names)


_PLUGINS: Final = Argument("plugin", "its name", is_rest=True)
_WHERE: Final = (
    Option("online", "ask the node (it always is)"),
    Option("offline", "accepted for rabbitmq-plugins' sake, without effect"),
)

VERBS: Final = (
    Verb(
        name="list",
        family=Family.PLUGINS,
        summary="Lists what RabbitMQ has as plug-ins and the node has built in",
        run=list_plugins,
        arguments=(Argument("pattern", "regular expression", is_optional=True),),
        options=(
            Option("minimal", "names only", short="m"),
            Option("enabled", "all that are listed are", short="E"),
            Option("implicitly-enabled", "all that are listed are", short="e"),
            Option("verbose", "accepted for rabbitmq-plugins' sake", short="v"),
        ),
    ),
    Verb(
        name="is_enabled",
        family=Family.PLUGINS,
        summary="Fails unless the node has all of these built in",
        run=is_enabled,
        arguments=(Argument("plugin", "its name"), _PLUGINS),
        options=_WHERE,
    ),
    Verb(
        name="enable",
        family=Family.PLUGINS,
        summary="Fails unless these are built in: nothing can be added",
        run=enable,
        arguments=(_PLUGINS,),
        options=(*_WHERE, Option("all", "all that there are")),
    ),
    Verb(
        name="disable",
        family=Family.PLUGINS,
        summary="Fails if one of these is built in: nothing can be removed",
        run=disable,
        arguments=(_PLUGINS,),
        options=_WHERE,
    ),
    Verb(
        name="set",
        family=Family.PLUGINS,
        summary="Fails unless these are built in: nothing can be added",
        run=set_plugins,
        arguments=(_PLUGINS,),
        options=_WHERE,
    ),
)
