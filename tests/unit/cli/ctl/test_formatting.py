"""What rabbitmqctl 3.10.8 prints for the same rows, byte for byte, where it prints them well."""

from __future__ import annotations

import json

from warren.cli.ctl.formatting import FORMATTERS, Answer, Document, Style, Table
from warren.cli.ctl.terms import AmqpTable, Atom, Pid, shown

ARGUMENTS = AmqpTable(
    {"x-message-ttl": 60000, "x-foo": True, "x-list": ["a", 1], "x-tab": {"k": "v"}}
)
QUEUES = Table(
    ("name", "arguments"),
    [{"name": "q1", "arguments": ARGUMENTS}, {"name": 'q "é"', "arguments": AmqpTable()}],
)
USERS = Table(
    ("user", "tags"),
    [
        {"user": "guser", "tags": [Atom("administrator"), Atom("monitoring")]},
        {"user": "guest", "tags": []},
    ],
)


def printed(formatter: str, answer: Answer, *, has_header: bool = True) -> str:
    return "\n".join(FORMATTERS[formatter](answer, Style(has_header=has_header)))


def test_a_table_has_a_header_tabs_and_erlang_terms() -> None:
    assert printed("table", QUEUES).splitlines() == [
        "name\targuments",
        'q1\t[{"x-message-ttl",60000},{"x-foo",true},{"x-list",["a",1]},{"x-tab",[{"k","v"}]}]',
        'q "é"\t[]',
    ]
    assert printed("table", USERS, has_header=False).splitlines() == [
        "guser\t[administrator, monitoring]",
        "guest\t[]",
    ]


def test_without_rows_there_is_no_header_either() -> None:
    empty = Table(("name",), [])
    assert printed("table", empty) == ""
    assert printed("csv", empty) == ""
    assert printed("pretty_table", empty) == ""
    assert printed("json", empty) == "[\n]"


def test_csv_quotes_everything() -> None:
    assert printed("csv", USERS).splitlines() == [
        '"user","tags"',
        '"guser","[administrator, monitoring]"',
        '"guest","[]"',
    ]
    assert '"q ""é"""' in printed("csv", QUEUES)


def test_json_has_a_line_for_each_row_and_the_types_of_amqp_fields() -> None:
    text = printed("json", QUEUES)
    assert text.splitlines()[0] == "["
    assert text.splitlines()[2] == ',{"name":"q \\"é\\"","arguments":[]}'
    assert json.loads(text)[0]["arguments"] == [
        ["x-message-ttl", "signedint", 60000],
        ["x-foo", "bool", True],
        ["x-list", "array", [["longstr", "a"], ["signedint", 1]]],
        ["x-tab", "table", [["k", "longstr", "v"]]],
    ]


def test_a_number_too_large_for_an_int_is_a_long() -> None:
    row = {"arguments": AmqpTable({"n": 2**31, "f": 1.5, "nothing": None})}
    assert json.loads(printed("json", Table(("arguments",), [row])))[0]["arguments"] == [
        ["n", "long", 2**31],
        ["f", "double", 1.5],
        ["nothing", "void", "undefined"],
    ]


def test_json_of_what_is_no_table() -> None:
    assert printed("json", "Success") == '{"message":"Success"}'
    assert printed("json", None) == '{"result":"ok"}'
    assert printed("json", Document("for people", {"a": None})) == '{"a":""}'


def test_erlang_breaks_what_is_too_long() -> None:
    assert printed("erlang", USERS) == (
        '[[{user,<<"guser">>},{tags,[administrator,monitoring]}],\n [{user,<<"guest">>},{tags,[]}]]'
    )
    assert '{arguments,[{<<"x-message-ttl">>,signedint,60000},' in printed("erlang", QUEUES)


def test_a_pretty_table_is_drawn_and_never_cut() -> None:
    wide = Table(("name",), [{"name": "x" * 300}, {"name": "[bold]"}])
    lines = printed("pretty_table", wide).splitlines()
    assert lines[0].startswith("┌─")
    assert lines[3] == f"│ {'x' * 300} │"
    assert lines[5].startswith("│ [bold]")


def test_cells() -> None:
    pid = Pid("<warren@a.1.2.0>")
    assert [shown(value) for value in (None, True, 1.0, 7, "a\tb", pid, [pid, pid])] == [
        "", "true", "1.0", "7", "a\tb", "<warren@a.1.2.0>", "[<warren@a.1.2.0>, <warren@a.1.2.0>]",
    ]  # fmt: skip
