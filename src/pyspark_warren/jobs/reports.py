"""A report of a job: one HTML file, with its plots in it, that asks for nothing from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: #1d2733; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; font-size: 0.9rem } td, th { padding: 0.2rem 0.8rem 0.2rem 0;
  text-align: left; border-bottom: 1px solid #e3e7ec; vertical-align: top }
.n { text-align: right; font-variant-numeric: tabular-nums } .bar { background: #3b6ea8; height: 0.8em }
svg { width: 100%; height: auto } svg text { font-size: 11px; fill: #5b6875 } .g { stroke: #e3e7ec }
.legend span { margin-right: 1rem } .legend i { display: inline-block; width: 0.8em; height: 0.8em;
  margin-right: 0.3em } .verdict { background: #eef3f9; border-left: 4px solid #3b6ea8;
  padding: 0.6rem 1rem } footer { color: #5b6875; font-size: 0.85rem; margin-top: 2rem }
@media (prefers-color-scheme: dark) { body { color: #dde4ec; background: #161b22 }
  td, th { border-color: #30363d } .g { stroke: #30363d } .verdict { background: #1f2937 } }
"""  # noqa: E501


@dataclass
class Report:
    """Put together part by part, in order."""

    title: str
    parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        self.parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str, kind: str = "") -> None:
        self.parts.append(f'<p class="{kind}">{escape(text)}</p>')

    def plot(self, drawn: str) -> None:
        self.parts.append(drawn)

    def table(self, names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
        self.parts.append(f"<table><tr>{head}</tr>{body}</table>")

    def page(self) -> str:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(self.title)}'
            f'</title><meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
            f"<h1>{escape(self.title)}</h1>{''.join(self.parts)}"
            f"<footer>Made by warren pipeline, {now}.</footer></html>"
        )

    def write(self, path: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(self.page())


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape('' if value is None else str(value))}</td>"
    return (
        f'<td class="n">{value:,.6g}</td>'
        if isinstance(value, float)
        else f'<td class="n">{value:,}</td>'
    )
