"""help, version, completion, and the report for whoever is asked for help."""

from __future__ import annotations

from typing import Final

from warren.cli.ctl import completion
from warren.cli.ctl import help as manual
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import FORMATTERS, Answer, Style
from warren.cli.ctl.verbs import (
    Argument,
    Contact,
    Exit,
    Failure,
    Family,
    Option,
    Verb,
    WrongUsage,
)

REPORT: Final = (
    "status", "cluster_status", "environment", "alarms", "list_connections", "list_channels",
    "list_vhosts", "list_users", "list_global_parameters",
)  # fmt: skip
REPORT_OF_VHOST: Final = (
    "list_queues", "list_exchanges", "list_bindings", "list_consumers", "list_permissions",
    "list_policies", "list_operator_policies", "list_parameters", "list_vhost_limits",
)  # fmt: skip


def show_help(call: Call) -> Answer:
    from warren.cli.ctl.catalogue import VERBS as ALL

    if call.flag("list-commands"):
        return "\n".join(sorted(ALL))
    asked = call.argument(0)
    if asked is None:
        return f"\n{manual.of_everything(ALL)}"
    if asked not in ALL:
        raise Failure(f"Error:\n\nCommand '{asked}' not found.", Exit.USAGE)
    return manual.of_verb(ALL[asked])


def version(_: Call) -> Answer:
    from warren import __version__

    return __version__


def show_completion(call: Call) -> Answer:
    shell = call.arguments[0]
    if shell not in completion.SCRIPTS:
        raise WrongUsage(f"no completion for '{shell}'; there is: {', '.join(completion.SCRIPTS)}")
    return completion.SCRIPTS[shell]


def autocomplete(call: Call) -> Answer:
    """The words so far, the last of which is being typed. A lone one is the start of a verb."""
    from warren.cli.ctl.catalogue import VERBS as ALL

    return "\n".join(completion.candidates(call.arguments or [""], ALL)) or None


def report(call: Call) -> Answer:
    """What every verb would say, one after the other."""
    vhosts = [str(vhost["name"]) for vhost in call.api.get("vhosts", columns="name")]
    call.announce(f"Reporting server status of node {call.node} ...\n")
    parts = [_part(call, name, {}) for name in REPORT]
    for vhost in vhosts:
        parts += [_part(call, name, {"vhost": vhost}) for name in REPORT_OF_VHOST]
    return "\n\n".join(parts)


def _part(call: Call, name: str, scope: dict[str, str]) -> str:
    from warren.cli.ctl.api import Refusal, as_failure
    from warren.cli.ctl.catalogue import VERBS as ALL

    title = f"{name} {scope['vhost']}" if scope else name
    part = Call(ALL[name], [], {**call.options, **scope, "quiet": True})
    try:
        lines = FORMATTERS["table"](ALL[name].run(part), Style())
    except Failure as failure:
        lines = iter([failure.text])
    except Refusal as refusal:
        lines = iter([as_failure(refusal).text])
    finally:
        part.close()
    return "\n".join([manual.bold(f"== {title}"), "", *lines])


VERBS: Final = (
    Verb(
        name="help",
        family=Family.HELP,
        summary="Displays usage information for a command",
        run=show_help,
        contact=Contact.NONE,
        arguments=(Argument("command", "which one", is_optional=True),),
        options=(Option("list-commands", "only a list of commands"),),
    ),
    Verb(
        name="version",
        family=Family.HELP,
        summary="Displays the version of warrenctl",
        run=version,
        contact=Contact.NONE,
    ),
    Verb(
        name="completion",
        family=Family.HELP,
        summary="Prints a script that makes a shell complete warrenctl's commands",
        run=show_completion,
        contact=Contact.NONE,
        arguments=(Argument("shell", "bash, zsh or fish"),),
        notes=(
            "bash: warrenctl completion bash > ~/.local/share/bash-completion/completions/warrenctl"
            "\nzsh:  warrenctl completion zsh > ~/.zfunc/_warrenctl   (with ~/.zfunc in fpath)"
            "\nfish: warrenctl completion fish > ~/.config/fish/completions/warrenctl.fish"
        ),
    ),
    Verb(
        name="autocomplete",
        family=Family.HELP,
        summary="Lists what may come next on a command line",
        run=autocomplete,
        contact=Contact.NONE,
        arguments=(Argument("word", "the words so far; put -- before them", is_rest=True),),
    ),
    Verb(
        name="report",
        family=Family.MONITORING,
        summary="Collects the answers of most verbs, to send to whoever is to help",
        run=report,
    ),
)
