"""Shell completion: three small scripts that ask `warrenctl autocomplete` what may come next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from warren.cli.ctl.formatting import FORMATTERS
from warren.cli.ctl.parsing import GENERAL_OPTIONS, find_verb
from warren.cli.ctl.verbs import Kind, Option, Verb

_BASH: Final = """\
_warrenctl() {
    local IFS=$'\\n'
    COMPREPLY=($(warrenctl autocomplete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _warrenctl warrenctl"""

_ZSH: Final = """\
#compdef warrenctl
_warrenctl() {
    local -a found
    found=("${(@f)$(warrenctl autocomplete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -a found
}
compdef _warrenctl warrenctl"""

_FISH: Final = """\
function __warrenctl
    set -l words (commandline -opc) (commandline -ct)
    warrenctl autocomplete -- $words[2..-1] 2>/dev/null
end
complete -c warrenctl -f -a '(__warrenctl)'"""

SCRIPTS: Final[Mapping[str, str]] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def candidates(words: Sequence[str], verbs: Mapping[str, Verb]) -> list[str]:
    """What the last word may become; the others are settled."""
    *settled, start = words
    _, verb = find_verb(settled, verbs)
    options = [*(verb.options if verb is not None else ()), *GENERAL_OPTIONS]
    taking = _awaiting(settled, options)
    if taking is not None:
        found = _values(taking)
    elif start.startswith("-"):
        found = [f"--{option.name}" for option in options]
    elif verb is None or verb.name == "help":
        found = sorted(verbs)
    elif verb.name == "completion":
        found = list(SCRIPTS)
    else:
        found = [column for column in verb.columns if column not in settled]
    return [word for word in found if word.startswith(start)]


def _awaiting(settled: Sequence[str], options: Sequence[Option]) -> Option | None:
    """The option whose value comes next."""
    last = settled[-1] if settled else ""
    for option in options:
        if last in {f"--{option.name}", f"-{option.short}"}:
            return None if option.kind is Kind.FLAG else option
    return None


def _values(option: Option) -> list[str]:
    match option.name:
        case "formatter":
            return list(FORMATTERS)
        case "apply-to":
            return ["queues", "exchanges", "all"]
        case _:
            return []
