"""Every claim has one test, and docs/CLAIMS.md says of each what its test says."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

from documents import ROOT

NUMBER: Final = re.compile(r"test_c(\d{3})_")
COUNT: Final = 133
DOCUMENT: Final = ROOT / "docs" / "CLAIMS.md"
ROW: Final = re.compile(r"^\| C(\d+) \| (.+?) \| (.+?) \| (.*?) ?\|$", re.MULTILINE)
WORKS, DIFFERS, AS_RABBITMQ = "works", "differs", "as RabbitMQ"
"""AS_RABBITMQ: RabbitMQ 3.10.8 does not do what the articles say, and neither does Warren."""


def tried() -> list[tuple[int, str]]:
    """Numbers of all tests of this folder that try a claim, and what their docstrings say."""
    paths = sorted(Path(__file__).parent.glob("test_*.py"))
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text()))]
    return sorted(
        (int(number[1]), " ".join((ast.get_docstring(node) or "").split()))
        for node in nodes
        if isinstance(node, ast.FunctionDef) and (number := NUMBER.match(node.name))
    )


def documented() -> list[tuple[int, str, str, str]]:
    """Rows of the document: number, claim, verdict, and how Warren does it."""
    rows = ROW.findall(DOCUMENT.read_text())
    return [(int(number), claim, verdict, how) for number, claim, verdict, how in rows]


def test_every_claim_is_tried_by_one_test() -> None:
    assert [number for number, _ in tried()] == list(range(1, COUNT + 1))


def test_the_document_has_every_claim_in_the_words_of_its_test() -> None:
    assert [(number, claim) for number, claim, _, _ in documented()] == tried()


def test_the_document_says_how_where_something_differs() -> None:
    rows = documented()
    assert {verdict for _, _, verdict, _ in rows} == {WORKS, DIFFERS, AS_RABBITMQ}
    assert [number for number, _, verdict, how in rows if verdict != WORKS and not how] == []


def test_the_document_counts_its_verdicts() -> None:
    verdicts = [verdict for _, _, verdict, _ in documented()]
    (said,) = re.findall(r"(\d+) work, (\d+) differ on purpose, (\d+) ", DOCUMENT.read_text())
    counts = [verdicts.count(verdict) for verdict in (WORKS, DIFFERS, AS_RABBITMQ)]
    assert [int(number) for number in said] == counts
