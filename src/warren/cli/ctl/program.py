"""Runs a verb: answers to stdout, complaints to stderr, rabbitmqctl's exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from warren.cli.ctl import help as manual
from warren.cli.ctl.call import Call
from warren.cli.ctl.catalogue import VERBS
from warren.cli.ctl.formatting import FORMATTERS, Answer, Style
from warren.cli.ctl.parsing import Options, check, find_verb, without_secrets
from warren.cli.ctl.tools import Tool, tool_with
from warren.cli.ctl.verbs import Exit, Failure, Verb, WrongUsage

EXIT_INTERRUPTED: Final = 130


def run(line: Sequence[str]) -> int:
    try:
        return _run(line)
    except Failure as failure:
        print(failure.text, file=sys.stderr)
        if Tool.is_rabbitmq():
            return failure.rabbitmq_code
        if failure.hint:
            print(f"\n{failure.hint}", file=sys.stderr)
        return failure.code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has had enough; there is nobody to tell, not even when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK


def _run(line: Sequence[str]) -> int:
    word, verb = find_verb(line, VERBS)
    if verb is None or not Tool.has(verb.name):
        return _explain(word, line)
    parsed = Options.of(verb).parse(line)
    parsed.words.remove(verb.name)
    if parsed.options.get("help") is True:
        print(manual.of_verb(verb))
        return Exit.OK
    if "user" in parsed.options and not any(o.name == "user" for o in verb.options):
        parsed.options["username"] = parsed.options.pop("user")
    call = Call(verb, parsed.words, parsed.options)
    try:
        check(verb, parsed)
        _check_formatter(call)
        return _answer(call)
    except WrongUsage as wrong:
        _complain(verb, wrong, line)
        return wrong.code


def _explain(word: str | None, line: Sequence[str]) -> int:
    """There is no verb, or none of that name."""
    if word is None:
        options = Options.of(None).parse(line)
        is_asked = options.options.get("help") is True and not options.wrong
        print(manual.of_everything(VERBS), file=sys.stdout if is_asked else sys.stderr)
        return Exit.OK if is_asked else Exit.USAGE
    print(f"\nCommand '{word}' not found. ", file=sys.stderr)
    suggestion = manual.suggest(word, VERBS)
    if word in VERBS:  # another tool's
        print(f"Did you mean '{tool_with(word)} {word}'? \n", file=sys.stderr)
    elif suggestion is not None:
        print(f"Did you mean '{suggestion}'? \n", file=sys.stderr)
    else:
        print(f"'{Tool.name} help' lists all commands\n", file=sys.stderr)
    return Exit.USAGE


def _check_formatter(call: Call) -> None:
    if call.formatter not in FORMATTERS:
        known = ", ".join(FORMATTERS)
        raise WrongUsage(f"unknown formatter '{call.formatter}', the formatters are: {known}")


def _answer(call: Call) -> int:
    from warren.cli.ctl.api import Refusal, as_failure

    try:
        _show(call, call.verb.run(call))
    except Refusal as refusal:
        raise as_failure(refusal) from refusal
    finally:
        call.close()
    return Exit.OK


def _show(call: Call, answer: Answer) -> None:
    if answer is None and call.formatter != "json":
        return
    if isinstance(answer, str) and call.is_silent:
        return
    has_header = not (call.is_silent or call.flag("no-table-headers"))
    for part in FORMATTERS[call.formatter](answer, Style(has_header=has_header)):
        print(part)
    sys.stdout.flush()


def _complain(verb: Verb, wrong: WrongUsage, line: Sequence[str]) -> None:
    print(f"Error (argument validation): {wrong.reason}", file=sys.stderr)
    print(f"Arguments given:\n\t{without_secrets(line)}", file=sys.stderr)
    print(f"\n{manual.usage(verb)}", file=sys.stderr)
