"""One table, shown to a person by Rich and kept as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable


@dataclass
class Table:
    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def show(self, console: Console) -> None:
        table = RichTable(title=self.title, title_justify="left")
        for position, column in enumerate(self.columns):
            table.add_column(column, justify="right" if position else "left")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
        for note in self.notes:
            console.print(note, style="dim")
        for failure in self.failures:
            console.print(f"failed: {failure}", style="red", markup=False, highlight=False)

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", f"| {' | '.join(self.columns)} |"]
        lines.append("|---|" + "---:|" * (len(self.columns) - 1))
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        lines += ["", *self.notes] if self.notes else []
        lines += ["", *(f"Failed: {failure}" for failure in self.failures)] if self.failures else []
        return "\n".join(lines) + "\n"


def write_markdown(path: Path, heading: str, tables: Sequence[Table]) -> None:
    path.write_text(f"{heading}\n\n" + "\n".join(table.markdown() for table in tables))


def rate(value: float) -> str:
    return f"{value / 1e6:.2f} M" if value >= 1e6 else f"{value / 1e3:.1f} k"


def pair(p50: float | None, p99: float | None) -> str:
    return "-" if p50 is None or p99 is None else f"{p50:.2f} / {p99:.2f}"


def times(value: float, base: float | None) -> str:
    return f"{value / base:.2f}x" if base else ""
