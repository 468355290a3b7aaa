"""Reports of jobs: each one HTML file, with its plots in it, that loads nothing from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

from pyspark_warren.errors import InvalidOption

_STYLE: Final = """
:root { color-scheme: light dark; --page: #fff; --text: #1d2733; --faint: #5b6875; --rule: #e3e7ec;
  --box: #eef3f9; --c0: #3b6ea8; --c1: #c8553d; --c2: #588157; --c3: #8e6c8a; --c4: #d4a017;
  --c5: #4aa3a2; --c6: #7d5a50; --c7: #6c757d }
@media (prefers-color-scheme: dark) { :root { --page: #161b22; --text: #dde4ec; --faint: #a3afbc;
  --rule: #30363d; --box: #1f2937; --c0: #6ea8e0; --c1: #f0876f; --c2: #8fc18d; --c3: #c39bc0;
  --c4: #e8c14a; --c5: #74cfce; --c6: #c09a8e; --c7: #a3adb7 } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: var(--text); background: var(--page) }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin: 2.5rem 0 0.5rem }
figure { margin: 1.5rem 0 } figcaption { font-weight: 600; margin-bottom: 0.3rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: 0.9rem;
  margin: 0.8rem 0 }
td, th { padding: 0.2rem 0.8rem 0.2rem 0; text-align: left; border-bottom: 1px solid var(--rule);
  vertical-align: top } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.long { min-width: 10rem; max-width: 24rem; overflow-wrap: anywhere }
.bars { width: 100% } .bars td { vertical-align: middle } .bars .name { overflow-wrap: anywhere }
.across { width: 60% } .bar { background: var(--c0); height: 0.8em }
svg { width: 100%; height: auto; display: block } svg text { font-size: 11px; fill: var(--faint) }
polyline { vector-effect: non-scaling-stroke }
.g { stroke: var(--rule) } .s { fill: var(--rule); opacity: 0.5 }
.legend { margin: 0.3rem 0; font-size: 0.9rem }
.legend span { margin-right: 1rem; display: inline-block }
.legend i { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.3em }
.legend .key { display: inline-block; width: 2.4em; height: 0.7em; margin-right: 0.3em }
@media (max-width: 600px) { svg text { font-size: 21px } svg .w { display: none }
  body { margin: 1rem auto } .across { width: 40% } }
.verdict { background: var(--box); border-left: 4px solid var(--c0); padding: 0.6rem 1rem }
.nothing, footer { color: var(--faint); font-size: 0.9rem; margin: 0.3rem 0 }
footer { margin-top: 2rem }
"""
LONG_CHARS_MIN: Final = 40


@dataclass
class Report:
    """A page that is put together part by part, in order."""

    title: str
    parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        self.parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str, kind: str = "") -> None:
        of_kind = f' class="{kind}"' if kind else ""
        self.parts.append(f"<p{of_kind}>{escape(text)}</p>")

    def plot(self, title: str, drawn: str) -> None:
        self.parts.append(f"<figure><figcaption>{escape(title)}</figcaption>{drawn}</figure>")

    def table(self, names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        numbers = {at for row in rows for at, value in enumerate(row) if _is_number(value)}
        head = "".join(_cell(name, "th", at in numbers) for at, name in enumerate(names))
        body = "".join(
            f"<tr>{''.join(_cell(value, 'td', at in numbers) for at, value in enumerate(row))}</tr>"
            for row in rows
        )
        self.parts.append(f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>')

    def page(self) -> str:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(self.title)}'
            f'</title><meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
            f"<h1>{escape(self.title)}</h1>{''.join(self.parts)}"
            f"<footer>Made by warren pipeline, {now}.</footer></html>"
        )

    def write(self, path: str) -> None:
        """Write the file as a whole or not at all: a reader may look at it meanwhile."""
        target = Path(path)
        draft = target.with_name(f".{target.name}.draft")
        try:
            draft.write_text(self.page())
            draft.replace(target)
        except OSError as error:
            raise _not_writable(path, error) from error


def check_writable(path: str | None) -> None:
    """Make the directory of a report, before any work is done for it.

    Raises
    ------
    InvalidOption
        If nothing can be written there.
    """
    if path is None:
        return
    if Path(path).is_dir():
        raise InvalidOption(f"option report: {path} is a directory")
    draft = Path(path).with_name(f".{Path(path).name}.draft")
    try:
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text("")
        draft.unlink()
    except OSError as error:
        raise _not_writable(path, error) from error


def _not_writable(path: str, error: OSError) -> InvalidOption:
    return InvalidOption(f"option report: cannot write {path}: {error.strerror or error}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object, tag: str, is_number: bool) -> str:
    text = _shown(value)
    kind = "n" if is_number else "long" if len(text) > LONG_CHARS_MIN else ""
    of_kind = f' class="{kind}"' if kind else ""
    return f"<{tag}{of_kind}>{escape(text)}</{tag}>"


def _shown(value: object) -> str:
    """Show whole numbers as they are, others to three figures."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "-" if value is None else str(value)
