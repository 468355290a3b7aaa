"""Faults of a real disk under a real broker: slow and failing syncs, short writes, no space.

The broker runs unchanged, with a library between it and the kernel (disk_faults.c) that spoils
what it does to the files of its data directory, by rules that a test changes while it runs.
"""

from __future__ import annotations

import errno
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("disk_faults.c")
MESSAGE_FILES: Final = "/msg_stores/"


@functools.cache
def library() -> Path:
    """Compiled once for all tests, out of their way."""
    directory = Path(tempfile.mkdtemp(prefix="disk-faults-"))
    compiled = directory / "disk_faults.so"
    compiler = shutil.which("cc") or "gcc"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", compiled, SOURCE, "-ldl", "-lpthread"],
        check=True,
    )
    return compiled


class DiskFaults:
    """The rules for one data directory. `part` is a piece of a path: it chooses the files."""

    def __init__(self, beside: Path, data_dir: Path) -> None:
        beside.mkdir(parents=True, exist_ok=True)
        self.tape = beside / "tape"
        self.trash = beside / "trash"
        self._control = beside / "rules"
        self._root = data_dir.absolute()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(library()),
            "FAULTS_ROOT": str(self._root),
            "FAULTS_CONTROL": str(self._control),
        }

    @property
    def recording(self) -> dict[str, str]:
        """With these a power cut can be played."""
        self.trash.mkdir(exist_ok=True)
        return {
            **self.environment,
            "FAULTS_TAPE": str(self.tape),
            "FAULTS_TRASH": str(self.trash),
        }

    def rule(self, *lines: str) -> None:
        """In place of those before; takes effect with the next system call."""
        fresh = self._control.with_suffix(".new")
        fresh.write_text("".join(f"{line}\n" for line in lines))
        fresh.replace(self._control)

    def slow_sync(self, milliseconds: int, part: str = MESSAGE_FILES) -> None:
        self.rule(f"sync {part} delay_ms={milliseconds}")

    def failing_sync(self, count: int, part: str = MESSAGE_FILES) -> None:
        self.rule(f"sync {part} errno={errno.EIO} count={count}")

    def short_writes(self, size: int, part: str = MESSAGE_FILES) -> None:
        self.rule(f"write {part} short={size}")

    def no_space(self, after_bytes: int = 0, part: str = MESSAGE_FILES) -> None:
        self.rule(f"write {part} bytes={after_bytes} errno={errno.ENOSPC}")

    def read_only(self, part: str = "/") -> None:
        self.rule(
            f"open {part} errno={errno.EROFS}",
            f"write {part} errno={errno.EROFS}",
        )

    def watch(self, part: str = MESSAGE_FILES) -> None:
        """Harm nothing; `hits` lists what is done."""
        self._hits.unlink(missing_ok=True)
        self.rule(f"any {part}")

    def kill_before(self, step: int, part: str = MESSAGE_FILES) -> None:
        """The process dies instead of doing this step to its files, counted from 0."""
        self.rule(f"any {part} skip={step} count=1 kill=1")

    def clear(self) -> None:
        self._control.unlink(missing_ok=True)

    @property
    def _hits(self) -> Path:
        return self._control.with_name(self._control.name + ".hits")

    def hits(self, operation: str = "") -> list[str]:
        """The faults that happened: `OPERATION PATH` each."""
        lines = self._hits.read_text().splitlines() if self._hits.exists() else []
        return [line for line in lines if line.startswith(operation)]
