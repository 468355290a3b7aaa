"""A command line becomes the call of a verb, the way rabbitmqctl reads it.

Options may stand anywhere, before the verb and after it. What looks like an option but is a number
is an argument. What a verb calls an option goes before what everybody calls it: `-u` is
`--username`, but `--if-unused` after `delete_queue`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from warren.cli.ctl.call import OptionValue
from warren.cli.ctl.verbs import Kind, Option, Verb, WrongUsage

GENERAL_OPTIONS: Final = (
    Option("help", "show the help of a verb", short="?"),
    Option("url", "address of the management API (or WARREN_URL)", Kind.TEXT),
    Option("username", "who asks (or WARREN_USER; default guest)", Kind.TEXT, "u"),
    Option("user", "the same as --username", Kind.TEXT, metavar="username"),
    Option("password", "with which password (or WARREN_PASSWORD)", Kind.TEXT),
    Option("cacertfile", "who vouches for https (or WARREN_CACERTFILE)", Kind.TEXT),
    Option("certfile", "certificate to show, with --keyfile", Kind.TEXT),
    Option("keyfile", "its private key", Kind.TEXT),
    Option("node", "which node of the cluster the verb is about", Kind.TEXT, "n"),
    Option("longnames", "accepted for rabbitmqctl's sake, without effect", short="l"),
    Option("vhost", "virtual host, for verbs that work in one; default /", Kind.TEXT, "p"),
    Option("timeout", "how long to wait, in seconds; 0 is for ever", Kind.INTEGER, "t"),
    Option("quiet", "no informational messages", short="q"),
    Option("silent", "no informational messages, no table headers", short="s"),
    Option("no-table-headers", "no table headers"),
    Option("table-headers", "table headers (the default)"),
    Option("formatter", "table, pretty_table, csv, json or erlang", Kind.TEXT, metavar="formatter"),
)
_NUMBER: Final = re.compile(r"-\d+(\.\d+)?")


@dataclass
class Parsed:
    words: list[str] = field(default_factory=list)
    options: dict[str, OptionValue] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


class Options:
    """The options that may be given, by what they are called on a command line."""

    def __init__(self, *options: Option) -> None:
        self._by_name: dict[str, Option] = {}
        for option in options:
            self._by_name.setdefault(f"--{option.name}", option)
            if option.short is not None:
                self._by_name.setdefault(f"-{option.short}", option)

    @classmethod
    def of(cls, verb: Verb | None) -> Options:
        return cls(*(verb.options if verb is not None else ()), *GENERAL_OPTIONS)

    def parse(self, line: Sequence[str]) -> Parsed:
        parsed = Parsed()
        rest = iter(line)
        for word in rest:
            if word == "--":
                parsed.words.extend(rest)
            elif not word.startswith("-") or word == "-" or _NUMBER.fullmatch(word):
                parsed.words.append(word)
            else:
                self._parse_option(word, rest, parsed)
        return parsed

    def _parse_option(self, word: str, rest: Iterator[str], parsed: Parsed) -> None:
        name, equals, given = word.partition("=")
        option = self._by_name.get(name)
        if option is None:
            parsed.wrong.append(f"{name} : {given}")
            return
        if option.kind is Kind.FLAG:
            if equals:
                parsed.wrong.append(f"{name} : {given}")
            parsed.options[option.name] = True
            return
        value = given if equals else next(rest, None)
        if value is None or (option.kind is Kind.INTEGER and not _is_integer(value)):
            parsed.wrong.append(f"{name} : {value or ''}")
        else:
            parsed.options[option.name] = int(value) if option.kind is Kind.INTEGER else value


def _is_integer(text: str) -> bool:
    return re.fullmatch(r"-?\d+", text) is not None


def find_verb(line: Sequence[str], verbs: Mapping[str, Verb]) -> tuple[str | None, Verb | None]:
    """The first word that is no option and belongs to none."""
    words = Options.of(None).parse(line).words
    if not words:
        return None, None
    return words[0], verbs.get(words[0])


def check(verb: Verb, parsed: Parsed) -> None:
    """rabbitmqctl's complaints, in its order."""
    if parsed.wrong:
        raise WrongUsage("\n".join(["Invalid options for this command:", *parsed.wrong]))
    count = len(parsed.words)
    if count < verb.arguments_min:
        raise WrongUsage("not enough arguments.")
    if verb.arguments_max is not None and count > verb.arguments_max:
        raise WrongUsage("too many arguments.")


def without_secrets(line: Sequence[str]) -> str:
    """The command line to show again, without the password in it."""
    shown = []
    is_secret = False
    for word in line:
        hidden = re.sub(r"(?<=^--password=).*", "***", word)
        hidden = re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1:***@", hidden)
        shown.append("***" if is_secret else hidden)
        is_secret = word == "--password"
    return " ".join(shown)
