"""Command lines, read as rabbitmqctl reads them."""

from __future__ import annotations

import pytest

from warren.cli.ctl.catalogue import VERBS
from warren.cli.ctl.parsing import Options, Parsed, check, find_verb, without_secrets
from warren.cli.ctl.verbs import WrongUsage


def parse(line: str) -> Parsed:
    words = line.split()
    _, verb = find_verb(words, VERBS)
    return Options.of(verb).parse(words)


@pytest.mark.parametrize(
    "line",
    [
        "-p v -q list_queues name",
        "list_queues --vhost=v name --quiet",
        "list_queues name -q --vhost v",
    ],
)
def test_options_may_stand_anywhere(line: str) -> None:
    parsed = parse(line)
    assert parsed.words == ["list_queues", "name"]
    assert parsed.options == {"vhost": "v", "quiet": True}
    assert parsed.wrong == []


def test_the_value_of_an_option_before_the_verb_is_not_the_verb() -> None:
    word, verb = find_verb(["-p", "list_users", "list_queues"], VERBS)
    assert word == "list_queues"
    assert verb is VERBS["list_queues"]


def test_numbers_and_what_follows_a_double_dash_are_arguments() -> None:
    assert parse("set_vm_memory_high_watermark -1").words[1:] == ["-1"]
    assert parse("add_user -- -u --password").words[1:] == ["-u", "--password"]
    assert parse("import_definitions -").words[1:] == ["-"]


def test_options_of_a_verb_go_before_those_of_everybody() -> None:
    assert parse("delete_queue q -u").options == {"if-unused": True}
    assert parse("purge_queue q -u me").options == {"username": "me"}
    assert parse("list_user_limits --user me").options == {"user": "me"}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("list_queues --timeout bogus", "--timeout : bogus"),
        ("list_queues -t 0.5", "-t : 0.5"),
        ("list_queues -p", "-p : "),
        ("list_queues --nosuch", "--nosuch : "),
        ("list_queues --quiet=yes", "--quiet : yes"),
        ("set_policy a b c --priority x", "--priority : x"),
    ],
)
def test_wrong_options_are_shown_with_their_value(line: str, complaint: str) -> None:
    assert parse(line).wrong == [complaint]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("set_policy name pattern", "not enough arguments."),
        ("set_policy name pattern definition more", "too many arguments."),
        ("list_users x", "too many arguments."),
        ("list_queues --nosuch a b", "Invalid options for this command:\n--nosuch : "),
    ],
)
def test_complaints_are_rabbitmqctls(line: str, complaint: str) -> None:
    parsed = parse(line)
    verb = VERBS[parsed.words.pop(0)]
    with pytest.raises(WrongUsage) as caught:
        check(verb, parsed)
    assert caught.value.reason == complaint


def test_a_shown_command_line_has_no_secrets() -> None:
    line = ["--password", "s3cret", "--password=s3cret", "--url", "http://me:s3cret@host/", "ping"]
    assert without_secrets(line) == "--password *** --password=*** --url http://me:***@host/ ping"


def test_every_verb_says_what_it_does_and_takes() -> None:
    for verb in VERBS.values():
        assert verb.summary, verb.name
        assert all(part.help for part in (*verb.arguments, *verb.options)), verb.name
        assert [a.is_optional for a in verb.arguments] == sorted(
            a.is_optional for a in verb.arguments
        ), f"{verb.name}: what is optional comes last"
