"""Whatever a document tells people to run is run by a test, or says why not.

These run it: tests/guides, tests/cluster/test_readme.py, tests/spark/test_guides.py,
tests/auth_backends/test_guide.py.
"""

from __future__ import annotations

import re
from typing import Final

from documents import DOCUMENTS, LANGUAGES, ROOT, blocks_of

NOT_RUN: Final = {
    "README.md: runs all tests",
    "README.md: takes half an hour, beside a RabbitMQ of yours",
    "docs/BENCHMARKS.md: takes an hour, beside a RabbitMQ of yours",
    "docs/BENCHMARKS.md: takes five minutes, beside a RabbitMQ of yours",
    "docs/BENCHMARKS.md: takes six minutes, beside a RabbitMQ of yours",
    "docs/BENCHMARKS.md: takes three minutes",
    "deploy/README.md: installs a service on this machine",
    "deploy/README.md: needs Docker's daemon",
    "docs/LAKE.md: installs packages",
}
"""All that no test runs, with the reason that the document gives."""
# The others with something to run. A new one needs a test in tests/guides.
RUN: Final = {
    "README.md",
    "docs/AUTH.md",
    "docs/LAKE.md",
    "docs/OPERATIONS.md",
    "docs/PIPELINE.md",
    "docs/SPARK.md",
    "docs/STREAMS.md",
    "docs/TELEMETRY.md",
    "docs/TESTING.md",
}
COMMAND: Final = re.compile(r"(?m)^(warren|warrenctl|curl|pip|docker|scripts/\w+|\.venv/\S+) ")


def test_documents_say_what_their_blocks_are_and_which_few_are_not_run() -> None:
    blocks = [block for path in DOCUMENTS for block in blocks_of(path)]
    assert [str(block) for block in blocks if block.language not in LANGUAGES] == []
    left_out = {f"{b.document}: {b.reason_not_to_run}" for b in blocks if b.reason_not_to_run}
    assert left_out == NOT_RUN
    run = {block.document for block in blocks if block.language and not block.reason_not_to_run}
    assert run == RUN


def test_no_command_hides_in_a_drawing() -> None:
    drawings = [b for path in DOCUMENTS for b in blocks_of(path) if not b.language]
    assert [str(block) for block in drawings if COMMAND.search(block.text)] == []


def test_no_command_hides_in_an_indented_block() -> None:
    """Markdown takes lines that are indented by four for code, unless they go on with a list."""
    found = []
    for path in DOCUMENTS:
        outside = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        for before, line in re.findall(r"^(.*)\n\n(    \S.*)$", outside, re.MULTILINE):
            if not re.match(r"\s+|[-*\d]", before):
                found.append(f"{path.relative_to(ROOT)}: {line.strip()}")
    assert found == []


def test_the_map_of_tests_has_every_folder_and_names_only_what_exists() -> None:
    tests = ROOT / "tests"
    named = set(re.findall(r"`([a-z_*]+/[\w*./]*)`", (tests / "README.md").read_text()))
    assert [name for name in named if not [*tests.glob(name), *ROOT.glob(name)]] == []
    folders = {f"{path.name}/" for path in tests.iterdir() if [*path.glob("*.py")]}
    assert folders - named == set()
