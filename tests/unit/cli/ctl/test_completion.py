"""What a shell is told may come next."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warren.cli.ctl.catalogue import VERBS
from warren.cli.ctl.completion import SCRIPTS, candidates


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["list_u"], ["list_unresponsive_queues", "list_user_limits", "list_user_permissions",
                      "list_user_topic_permissions", "list_users"]),
        (["-p", "list_users", "pin"], ["ping"]),
        (["list_queues", "messages_re"], ["messages_ready", "messages_ready_ram"]),
        (["list_queues", "name", "nam"], []),
        (["list_queues", "--off"], ["--offline"]),
        (["list_queues", "--formatter", "c"], ["csv"]),
        (["set_policy", "--apply-to", ""], ["queues", "exchanges", "all"]),
        (["set_policy", "--apply-to", "all", "p", ""], []),
        (["help", "pin"], ["ping"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
    ],
)  # fmt: skip
def test_candidates(words: list[str], expected: list[str]) -> None:
    assert candidates(words, VERBS) == expected


def test_bash_completes_with_its_script(tmp_path: Path) -> None:
    if (bash := shutil.which("bash")) is None:
        pytest.skip("no bash")
    program = tmp_path / "warrenctl"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m warren.cli.ctl "$@"\n')
    program.chmod(0o755)
    typed = "COMP_WORDS=(warrenctl -q list_queues cons); COMP_CWORD=3; _warrenctl"
    script = f'PATH="{tmp_path}:$PATH"\n{SCRIPTS["bash"]}\n{typed}; echo "${{COMPREPLY[*]}}"'
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["consumers", "consumer_utilisation", "consumer_capacity"]
