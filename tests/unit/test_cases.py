"""Numbered cases: whatever number a test or a text cites is defined in the documents, and the other
way round.

A case is a row of a table in docs/REPLICATION.md or docs/CASES.md. A test cites it by its name
(`test_3_20_and_3_21_...`, `test_t164_...`) or in a text ("5-03, 5-07", "I1 to I13").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
LAWS: Final = (ROOT / "docs" / "REPLICATION.md", ROOT / "docs" / "CASES.md")
THIS: Final = Path(__file__)

DEFINED: Final = re.compile(r"^\| ([A-Z]?\d+(?:-\d+)?) \| (.+?) \|$", re.MULTILINE)
NAMED: Final = re.compile(r"def test_(?:case_)?((?:[1-9]_\d\d_(?:and_|to_)?)+|[tsw]\d+_)")
# A letter and a small number, so that a 99th percentile is not taken for a promise.
LETTERED: Final = r"T\d{3}|[PEGISW](?:[1-9]|[1-3]\d)"
SPOKEN: Final = re.compile(rf"\b({LETTERED})\b(?: to ({LETTERED})\b)?")
# Not a date, a range of ports or a part of another number.
NUMBERED: Final = re.compile(
    r"(?<![\w.:#/-])([1-79]-\d\d)(?!\d|[-.:/]\d)(?: to ([1-79]-\d\d)(?!\d|[-.:/]\d))?"
)
EXCUSE: Final = re.compile(r"\*Not applicable:\*|\*Covered by\* `([^`]+)`")


def defined() -> dict[str, str]:
    rows = [row for path in LAWS for row in DEFINED.findall(path.read_text())]
    assert len(rows) == len(dict(rows)), "a case is defined twice"
    return dict(rows)


def spanned(first: str, last: str) -> Iterator[str]:
    """All cases from the first to the last: I1 to I13, 7-01 to 7-09."""
    head, digits = re.fullmatch(r"(\D|\d-)(\d+)", first).groups()  # type: ignore[union-attr]
    assert last.startswith(head), f"{first} to {last}"
    for number in range(int(digits), int(last[len(head) :]) + 1):
        yield f"{head}{number:0{len(digits)}}"


def cited_in(text: str) -> Iterator[str]:
    for name in NAMED.findall(text):
        for chapter, number in re.findall(r"([1-9])_(\d\d)_", name):
            yield f"{chapter}-{number}"
        if name[0] in "tsw":
            yield name[0].upper() + name[1:-1]
    for pattern in (SPOKEN, NUMBERED):
        for first, last in pattern.findall(text):
            yield from spanned(first, last or first)


def cited(*folders: str) -> dict[str, str]:
    """Each case that is cited under these folders, and a file that does."""
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return {
        case: path.relative_to(ROOT).as_posix()
        for path in files
        if path != THIS
        for case in cited_in(path.read_text())
    }


def test_every_case_that_is_cited_is_defined() -> None:
    known = defined()
    found = cited("src", "tests", "bench")
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        found |= dict.fromkeys(cited_in(path.read_text()), path.name)
    assert {case: where for case, where in found.items() if case not in known} == {}


def test_every_case_is_cited_by_a_test_or_says_why_not() -> None:
    tested = cited("tests")
    missing = [f"{case}: {text}" for case, text in defined().items() if case not in tested]
    assert [line for line in missing if not EXCUSE.search(line)] == []


def test_what_covers_a_case_exists() -> None:
    named = [found for text in defined().values() for found in EXCUSE.findall(text) if found]
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_citations_are_found_in_all_their_forms() -> None:
    names = "def test_case_7_12_x\ndef test_3_20_and_3_21_x\ndef test_t169_x\ndef test_w5_x\n"
    assert set(cited_in(names)) == {"7-12", "3-20", "3-21", "T169", "W5"}
    texts = '"""I1 to I3, 5-03, 5-07: some"""; ids=["3-04-cancelled"]; P2 and T031, S7'
    assert set(cited_in(texts)) == {
        *("I1", "I2", "I3", "5-03", "5-07", "3-04", "P2", "T031", "S7"),
    }
    assert set(cited_in("2020-05-06, P99, HTTP/1-12, 3.9-10, 15672-15")) == set()
