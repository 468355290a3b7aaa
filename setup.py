"""The compiled part of the build; everything else is in pyproject.toml.

Two kinds of module are compiled, and both are found by looking: a `.pyx` (the wire kernel), and a
plain `.py` with a `.pxd` beside it that gives its attributes C types. The second kind stays
ordinary Python, which WARREN_PURE=1 runs as it stands.

    SKIP_CYTHON=1     compile nothing
    REQUIRE_CYTHON=1  fail when something cannot be compiled, instead of going on without
    WARREN_DEBUG=1    keep bounds checks and assertions
"""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import Extension, setup

DEBUG = bool(os.environ.get("WARREN_DEBUG"))
BUILD = "build/debug" if DEBUG else "build/release"
PACKAGE = Path("src/warren")
COMPILED = sorted(
    [*PACKAGE.rglob("*.pyx"), *(p for p in PACKAGE.rglob("*.py") if p.with_suffix(".pxd").exists())]
)
# Compiled Python keeps Python's meaning, index checks included; only the kernel does without.
DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # the .pxd alone decides C types; annotations are for mypy
}
KERNEL_DIRECTIVES = DIRECTIVES | {"boundscheck": DEBUG, "wraparound": False, "cdivision": True}
# Generated C is full of unused functions, so not every warning can be an error; these can.
FLAGS = [
    "-O1" if DEBUG else "-O3",
    "-g" if DEBUG else "-g0",
    "-Wno-unused-function",
    "-Werror=implicit-function-declaration",
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
    "-Werror=return-type",
    "-Werror=shift-count-overflow",
]
FLAGS += ["-UNDEBUG"] if DEBUG else []


def module_name(path: Path) -> str:
    return ".".join(path.relative_to("src").with_suffix("").parts)


def extensions() -> list[Extension]:
    if not COMPILED or os.environ.get("SKIP_CYTHON"):
        return []
    from Cython.Build import cythonize
    from Cython.Compiler import Options

    Options.warning_errors = True
    required = bool(os.environ.get("REQUIRE_CYTHON"))

    def compiled(suffix: str, directives: dict[str, object]) -> list[Extension]:
        modules = [
            Extension(module_name(p), [str(p)], extra_compile_args=FLAGS, optional=not required)
            for p in COMPILED
            if p.suffix == suffix
        ]
        return cythonize(modules, build_dir=f"{BUILD}/c", compiler_directives=directives)

    try:
        return compiled(".pyx", KERNEL_DIRECTIVES) + compiled(".py", DIRECTIVES)
    except Exception:
        if required:
            raise
        print("warren: Cython failed, going on with plain Python")
        return []


setup(
    ext_modules=extensions(),
    options={"build": {"build_base": BUILD}, "build_ext": {"parallel": os.cpu_count()}},
)
