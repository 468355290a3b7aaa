"""The house rules as tests: sizes, direction of imports, purity, and nothing left lying about."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
SOURCES: Final = ROOT / "src" / "warren"
SPARK_SOURCES: Final = ROOT / "src" / "pyspark_warren"

FILE_LINES_WISHED: Final = 350
FILE_LINES_MAX: Final = 500
FUNCTION_LINES_MAX: Final = 60
LINE_CHARS_MAX: Final = 100

KERNEL_SUFFIXES: Final = ("pyx", "pxi", "pxd", "pyi")

# What each package may import of ours. Nothing here points upwards.
BELOW_BROKER: Final = {
    "model",
    "wire",
    "routing",
    "queues",
    "storage",
    "streams",
    "metadata",
    "auth",
    "policy",
}
BELOW_SERVER: Final = BELOW_BROKER | {"protocol", "broker", "channels", "flow", "statistics"}
ALLOWED: Final = {
    "model": set[str](),
    "wire": {"model"},
    "protocol": {"model", "wire"},
    "flow": {"model"},
    "policy": {"model"},
    "routing": {"model"},
    "queues": {"model", "wire"},
    "storage": {"model", "wire", "queues", "flow"},
    "streams": {"model", "wire", "queues", "storage", "flow"},
    "metadata": {"model", "wire"},
    "auth": {"model", "metadata"},
    "broker": BELOW_BROKER,
    "channels": BELOW_BROKER | {"broker", "protocol"},
    "statistics": BELOW_BROKER | {"broker", "channels", "flow"},
    "config": {"model", "auth", "flow", "policy", "storage"},
    "replication": {"model", "wire", "queues", "storage", "flow", "streams"},
    "cluster": BELOW_BROKER | {"broker", "flow", "replication"},
    "server": BELOW_SERVER | {"cluster", "config", "replication"},
    "management": BELOW_SERVER | {"server", "cluster", "config", "replication"},
    "client": {"model", "wire", "protocol"},
    "perf": {"model", "wire", "protocol", "client"},
    "cli": BELOW_SERVER | {"server", "client", "config", "management", "perf"},
    "testing": BELOW_SERVER | {"server", "config", "management"},
}

# Modules that import each other, directly or around corners, also for types alone, are one module
# to whoever has to understand them. So many may be.
KNOT_MODULES_MAX: Final = 3

# What runs in Spark's workers takes of the broker how it writes things down, and no broker.
ALLOWED_FOR_SPARK: Final = {"model", "wire", "protocol", "storage", "streams", "client"}

# Logic is given its clock, disk, network and dice, so that simulations own them.
WORLDLY_MODULES: Final = {"asyncio", "uvloop", "socket", "select", "time", "random", "threading"}
WORLDLY_PLACES: Final = (
    "server/",
    "management/",
    "cli/",
    "perf/",
    "testing/",
    "config/settings.py",
    "model/regular_expressions.py",  # measures how long a match takes
    "metadata/sqlite.py",
    "metadata/etcd",
    "metadata/key_order.py",
    "metadata/watchers.py",
    "storage/disk/files.py",
    "storage/disk/committer.py",
)

# Started by a person, a packaging entry point or a test, so imported by nobody.
ENTRY_POINTS: Final = (
    "cli/main.py",
    "cli/ctl/__init__.py",
    "testing/",
    "metadata/etcd.py",
)

# The literals are split so that this file does not find itself.
MACHINE_PATH: Final = re.compile(r"/(?:home|Users)/[a-z]\w*|/ro" + r"ot/")


def python_files() -> list[Path]:
    folders = (SOURCES, SPARK_SOURCES, ROOT / "tests", ROOT / "bench")
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def kernel_files() -> list[Path]:
    return sorted(p for suffix in KERNEL_SUFFIXES for p in SOURCES.rglob(f"*.{suffix}"))


def script_files() -> list[Path]:
    plain = [p for p in (ROOT / "scripts").iterdir() if p.is_file() and not p.suffix]
    return sorted([*plain, ROOT / ".ci" / "run", ROOT / "setup.py"])


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def offenders(files: list[Path], find: Callable[[Path], Iterator[str]]) -> list[str]:
    return [f"{name(path)}: {offence}" for path in files for offence in find(path)]


def imported_modules(path: Path) -> Iterator[str]:
    """Dotted names a file imports; `from a import b` counts as both a and a.b."""
    if path.suffix in {".pyx", ".pxi", ".pxd"}:
        pattern = r"^\s*from\s+([\w.]+)\s+c?import\s+\(?([\w, ]+)|^\s*c?import\s+([\w.]+)"
        for source, names, plain in re.findall(pattern, path.read_text(), re.MULTILINE):
            yield plain or source
            yield from (f"{source}.{n.strip()}" for n in names.split(",") if source)
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_files_stay_short_enough_to_know() -> None:
    lengths = {name(p): len(p.read_text().splitlines()) for p in python_files() + kernel_files()}
    for path, length in sorted(lengths.items()):
        if FILE_LINES_WISHED < length <= FILE_LINES_MAX:
            warnings.warn(f"{path} has {length} lines, over {FILE_LINES_WISHED}", stacklevel=1)
    assert {p: n for p, n in lengths.items() if n > FILE_LINES_MAX} == {}


def test_functions_fit_on_a_screen() -> None:
    def find_in_python(path: Path) -> Iterator[str]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    yield f"{node.name} has {length} lines"

    def find_in_cython(path: Path) -> Iterator[str]:
        lines = path.read_text().splitlines()
        for start, line in enumerate(lines):
            match = re.match(r"( *)(?:def|cpdef|cdef)\s[^=]*\b(\w+)\(.*", line)
            if match is None or line.endswith(")"):
                continue
            body = next(
                (i for i in range(start + 1, len(lines)) if ends_block(lines[i], match[1])),
                len(lines),
            )
            if body - start > FUNCTION_LINES_MAX:
                yield f"{match[2]} has {body - start} lines"

    def ends_block(line: str, indent: str) -> bool:
        closes_signature = line.strip().startswith(")")
        return bool(line.strip()) and not line.startswith(indent + " ") and not closes_signature

    kernel = [p for p in kernel_files() if p.suffix in {".pyx", ".pxi"}]
    found = offenders(python_files(), find_in_python) + offenders(kernel, find_in_cython)
    assert found == []


def test_lines_fit_beside_each_other() -> None:
    """In what ruff does not read; for Python it has the same limit."""

    def find(path: Path) -> Iterator[str]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > LINE_CHARS_MAX:
                yield f"line {number} has {len(line)} characters"

    assert offenders(kernel_files() + script_files(), find) == []


def test_imports_point_one_way() -> None:
    def find(path: Path) -> Iterator[str]:
        package = path.relative_to(SOURCES).parts[0]
        for module in sorted(set(imported_modules(path))):
            parts = module.split(".")
            if parts[0] != "warren" or len(parts) == 1 or not (SOURCES / parts[1]).is_dir():
                continue
            if parts[1] != package and parts[1] not in ALLOWED[package]:
                yield f"{package} must not import {module}"

    inside = [p for p in (*SOURCES.rglob("*.py"), *kernel_files()) if p.parent != SOURCES]
    assert offenders(sorted(inside), find) == []


def imports_of_modules() -> dict[str, set[str]]:
    """Return what each module of ours imports of ours; packages themselves are left out."""
    modules = {module_name(path): path for path in SOURCES.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for module, path in modules.items():
        named = set(imported_modules(path)) & set(modules)
        packages = {each for each in named if modules[each].name == "__init__.py"}
        found[module] = named - packages - {module}
    return found


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCES.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def knots_of(imports: dict[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components: all modules that can be reached from each other."""

    def reached_from(start: str) -> set[str]:
        reached: set[str] = set()
        waiting = [start]
        while waiting:
            for module in imports[waiting.pop()] - reached:
                reached.add(module)
                waiting.append(module)
        return reached

    reach = {module: reached_from(module) for module in imports}
    cyclic = [module for module in imports if module in reach[module]]
    knots: list[set[str]] = []
    while cyclic:
        knot = {module for module in reach[cyclic[0]] if cyclic[0] in reach[module]}
        knots.append(knot)
        cyclic = [module for module in cyclic if module not in knot]
    return knots


def test_few_modules_import_each_other() -> None:
    knots = knots_of(imports_of_modules())
    assert [sorted(knot) for knot in knots if len(knot) > KNOT_MODULES_MAX] == []


def test_knots_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set[str]()}
    assert knots_of(imports) == [{"a", "b", "c"}]


def test_the_package_for_spark_needs_no_broker_and_the_broker_needs_no_spark() -> None:
    def find_broker(path: Path) -> Iterator[str]:
        for module in sorted(set(imported_modules(path))):
            parts = module.split(".")
            if parts[0] == "warren" and len(parts) > 1 and parts[1] not in ALLOWED_FOR_SPARK:
                yield f"pyspark_warren must not import {module}"

    def find_spark(path: Path) -> Iterator[str]:
        for module in sorted(set(imported_modules(path))):
            if module.split(".")[0] in {"pyspark", "pyspark_warren", "pyarrow", "numpy"}:
                yield f"warren must not import {module}"

    found = offenders(sorted(SPARK_SOURCES.rglob("*.py")), find_broker)
    assert found + offenders(sorted(SOURCES.rglob("*.py")), find_spark) == []


def test_every_package_has_its_place_in_the_direction_of_imports() -> None:
    packages = {p.name for p in SOURCES.iterdir() if (p / "__init__.py").exists()}
    assert packages - set(ALLOWED) == set()


def test_only_the_shell_touches_clock_disk_network_and_dice() -> None:
    def find(path: Path) -> Iterator[str]:
        for module in sorted({m.split(".")[0] for m in imported_modules(path)}):
            if module in WORLDLY_MODULES:
                yield f"imports {module}"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "open":
                yield f"opens a file in line {node.lineno}"

    pure = [
        p
        for p in sorted(SOURCES.rglob("*.py"))
        if not p.relative_to(SOURCES).as_posix().startswith(WORLDLY_PLACES)
    ]
    assert offenders(pure, find) == []


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    own = [str(p) + "/" for p in (ROOT.parent, Path.home()) if len(p.parts) > 1]

    def find(path: Path) -> Iterator[str]:
        text = path.read_text()
        yield from (f"names {place}" for place in own if place in text)
        yield from (f"names {match}" for match in MACHINE_PATH.findall(text))

    documents = [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *(ROOT / "docs").rglob("*.md")]
    assert offenders(python_files() + kernel_files() + script_files() + documents, find) == []


def test_every_module_logs_events_with_facts() -> None:
    """All lines of the log have one form, which `model/logs.py` gives them; one more rotates."""

    def find(path: Path) -> Iterator[str]:
        if "logging" in imported_modules(path):
            yield "imports logging"

    log_modules = {"src/warren/model/logs.py", "src/warren/model/log_rotation.py"}
    files = [p for p in sorted(SOURCES.rglob("*.py")) if name(p) not in log_modules]
    assert offenders(files, find) == []


def test_every_pxd_stands_beside_what_it_describes() -> None:
    lonely = [
        name(p)
        for p in SOURCES.rglob("*.pxd")
        if not p.with_suffix(".py").exists() and not p.with_suffix(".pyx").exists()
    ]
    assert lonely == []


def test_every_module_is_used_by_another_or_started_by_someone() -> None:
    files = [*SOURCES.rglob("*.py"), *kernel_files()]
    used = {(path, module) for path in files for module in imported_modules(path)}

    def is_used(path: Path) -> bool:
        module = ".".join(path.relative_to(SOURCES.parent).with_suffix("").parts)
        return any(m == module and p.with_suffix("") != path.with_suffix("") for p, m in used)

    dead = [
        name(path)
        for path in sorted(SOURCES.rglob("*.py"))
        if path.name not in {"__init__.py", "__main__.py"}
        and not path.relative_to(SOURCES).as_posix().startswith(ENTRY_POINTS)
        and not is_used(path)
    ]
    assert dead == []
