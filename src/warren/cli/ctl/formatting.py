"""Answers of verbs, and the formatters that print them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warren.cli.ctl.terms import erlang, shown, to_json

PRETTY_TABLE_WIDTH_MAX: Final = 10_000


@dataclass(frozen=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class Document:
    """For people `text`; for programs `value`."""

    text: str
    value: object


Answer = Table | Document | str | None


@dataclass(frozen=True)
class Style:
    has_header: bool = True
    is_silent: bool = False


def as_table(answer: Answer, style: Style) -> Iterator[str]:
    if not isinstance(answer, Table):
        yield from _plain(answer)
        return
    if answer.rows and style.has_header:
        yield "\t".join(answer.columns)
    for row in answer.rows:
        yield "\t".join(shown(row[column]) for column in answer.columns)


def as_csv(answer: Answer, style: Style) -> Iterator[str]:
    import csv
    import io

    if not isinstance(answer, Table):
        yield from _plain(answer)
        return
    lines = io.StringIO()
    writer = csv.writer(lines, quoting=csv.QUOTE_ALL, lineterminator="\n")
    if answer.rows and style.has_header:
        writer.writerow(answer.columns)
    writer.writerows([shown(row[column]) for column in answer.columns] for row in answer.rows)
    if text := lines.getvalue():
        yield text.removesuffix("\n")


def as_json(answer: Answer, style: Style) -> Iterator[str]:
    match answer:
        case None:
            yield json_text({"result": "ok"})
        case str():
            yield json_text({"message": answer})
        case Document():
            yield json_text(to_json(answer.value))
        case Table():
            yield "["
            for number, row in enumerate(answer.rows):
                entry = {column: to_json(row[column]) for column in answer.columns}
                yield f"{',' if number else ''}{json_text(entry)}"
            yield "]"


def as_erlang(answer: Answer, style: Style) -> Iterator[str]:
    match answer:
        case Table():
            yield erlang([{c: row[c] for c in answer.columns} for row in answer.rows])
        case Document():
            yield erlang(answer.value)
        case _:
            yield from _plain(answer)


def as_pretty_table(answer: Answer, style: Style) -> Iterator[str]:
    if not isinstance(answer, Table):
        yield from _plain(answer)
        return
    if not answer.rows:
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table as Drawing
    from rich.text import Text

    drawing = Drawing(box=box.SQUARE, show_lines=True, show_header=style.has_header)
    for column in answer.columns:
        drawing.add_column(column, no_wrap=True)
    for row in answer.rows:
        drawing.add_row(*(Text(shown(row[column])) for column in answer.columns))
    # A table wider than the terminal is still whole when it goes to a file or a pager.
    console = Console(width=PRETTY_TABLE_WIDTH_MAX, highlight=False)
    with console.capture() as capture:
        console.print(drawing)
    yield "\n".join(line.rstrip() for line in capture.get().splitlines())


FORMATTERS: Final[Mapping[str, Callable[[Answer, Style], Iterator[str]]]] = {
    "table": as_table,
    "pretty_table": as_pretty_table,
    "csv": as_csv,
    "json": as_json,
    "erlang": as_erlang,
}


def json_text(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _plain(answer: Document | str | None) -> Iterator[str]:
    if isinstance(answer, Document):
        yield answer.text
    elif answer is not None:
        yield answer
