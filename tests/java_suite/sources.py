"""The sources of the Java client and its tests: taken from git, completed, compiled.

The client is compiled with its tests, as Debian's is older. Two texts are changed on the way, since
the suite expects its broker at port 5672: the port of the protocol becomes a property of the
virtual machine, and so do two literals of a test.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

TAG: Final = "v5.16.0"
GITHUB: Final = "https://github.com/rabbitmq/{}.git"
CLIENT: Final = "rabbitmq-java-client"
CODEGEN: Final = "rabbitmq-codegen"
PACKAGES: Final = (
    "default-jdk-headless", "junit4", "libassertj-core-java", "libdropwizard-metrics-java",
    "libslf4j-java",
)  # fmt: skip
JARS: Final = (
    "junit4", "hamcrest-core", "assertj-core", "byte-buddy", "metrics-core", "slf4j-api",
    "slf4j-nop",
)  # fmt: skip
SUITES: Final = ("functional/FunctionalTests.java", "server/ServerTests.java")
HERE: Final = Path(__file__).parent
_PORT: Final = 'Integer.getInteger("test-broker.A.node_port", 5672)'


class Missing(Exception):
    """Something that the suite needs is not there; the text says how to get it."""


def require_packages() -> None:
    lacking = [name for name in JARS if not _jar(name).exists()]
    if lacking or shutil.which("javac") is None:
        raise Missing(f"needs Debian's packages: apt-get install {' '.join(PACKAGES)}")


def _jar(name: str) -> Path:
    return Path("/usr/share/java") / f"{name}.jar"


def classpath(*folders: Path) -> str:
    return ":".join(str(path) for path in (*folders, *map(_jar, JARS)))


def take(repository: str | None, name: str, commit: str, target: Path) -> None:
    """Write the files of a commit to `target`: of a repository here, or else of GitHub's."""
    if repository is None:
        address = GITHUB.format(name)
        repository = str(target.with_name(f"{name}.git"))
        clone = ["git", "clone", "--quiet", "--bare", address, repository]
        if not Path(repository).exists() and subprocess.run(clone, check=False).returncode:
            raise Missing(f"cannot clone {address}: say where a copy is (--client, --codegen)")
    target.mkdir(parents=True)
    archive = subprocess.Popen(["git", "-C", repository, "archive", commit], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", target], stdin=archive.stdout, check=True)
    if archive.wait():
        raise Missing(f"{repository} has no {commit} of {name}")


def generate(client: Path, codegen: Path) -> None:
    """Write AMQP.java and AMQImpl.java, which the client's build makes of the specification."""
    folder = client / "src/main/java/com/rabbitmq/client"
    specification = codegen / "amqp-rabbitmq-0.9.1.json"
    for kind, path in (("header", folder / "AMQP.java"), ("body", folder / "impl/AMQImpl.java")):
        subprocess.run(
            [sys.executable, client / "codegen.py", kind, specification, path],
            env={**os.environ, "PYTHONPATH": str(codegen)},
            check=True,
        )
    replace(folder / "AMQP.java", "int PORT = 5672;", f"int PORT = {_PORT};")
    recovery = client / "src/test/java/com/rabbitmq/client/test/functional/ConnectionRecovery.java"
    replace(recovery, '"127.0.0.1", 5672', f'"127.0.0.1", {_PORT}')


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{path.name} has no {old}"
    path.write_text(text.replace(old, new))


def test_classes(client: Path) -> list[str]:
    """Return the names of the classes that the two suites list, in their order."""
    tests = client / "src/test/java"
    found = []
    for suite in SUITES:
        text = (tests / "com/rabbitmq/client/test" / suite).read_text()
        listed = re.search(r"SuiteClasses\(\{(.*?)\}\)", text, re.DOTALL)
        assert listed is not None, suite
        for name in re.findall(r"(\w+)\.class", listed[1]):
            path = next(tests.rglob(f"{name}.java")).relative_to(tests)
            found.append(str(path.with_suffix("")).replace("/", "."))
    return found


def compile_all(client: Path, classes: list[str], target: Path) -> None:
    """Compile these tests and all that they use."""
    main, tests = client / "src/main/java", client / "src/test/java"
    files = [tests / f"{name.replace('.', '/')}.java" for name in classes]
    target.mkdir()
    command = ["javac", "-nowarn", "-encoding", "UTF-8", "-d", target, "-cp", classpath()]
    command += ["-sourcepath", f"{main}:{tests}", HERE / "Recorder.java", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"javac failed:\n{done.stderr[-4000:]}")
    for resources in ("src/main/resources", "src/test/resources"):
        shutil.copytree(client / resources, target, dirs_exist_ok=True)


def prepare(client: str | None, codegen: str | None, work: Path) -> tuple[list[str], Path]:
    """Return the names of all test classes and where they are compiled; once for each `work`."""
    sources, target = work / CLIENT, work / "classes"
    if not target.exists():
        require_packages()
        shutil.rmtree(sources, ignore_errors=True)
        shutil.rmtree(work / CODEGEN, ignore_errors=True)
        take(client, CLIENT, TAG, sources)
        take(codegen, CODEGEN, "HEAD", work / CODEGEN)
        generate(sources, work / CODEGEN)
        building = work / "building"
        shutil.rmtree(building, ignore_errors=True)
        compile_all(sources, test_classes(sources), building)
        building.rename(target)
    return test_classes(sources), target
