"""WARREN_PURE=1: run Warren from its `.py` sources although compiled modules lie beside them.

Python prefers an extension module to a source file of the same name, so `queue.so` hides the
`queue.py` it was made from. To step through that code, or to prove that both behave the same, a
finder placed before Python's own looks for the source alone. Modules without one (the kernel) are
left to Python; `wire/codec.py` chooses the kernel's plain twin under the same switch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

PURE = os.environ.get("WARREN_PURE", "") not in {"", "0"}


class _SourceFinder:
    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith("warren."):
            return None
        for directory in path or ():
            spec = FileFinder(directory, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name)
            if spec is not None and spec.loader is not None:
                return spec
        return None


def prefer_sources_when_asked() -> None:
    if PURE and _SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, _SourceFinder)
