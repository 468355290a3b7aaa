"""A real Celery worker, in a process of its own, with the rpc result backend."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_process import Address

UP_WITHIN_S = 120
RESULT_WITHIN_S = 60


@pytest.fixture(scope="module")
def project(broker: Address, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The application's module, with a worker running; its queue is this module's own."""
    queue = f"celery-{uuid.uuid4().hex[:8]}"
    os.environ["CELERY_TEST_BROKER"] = f"amqp://guest:guest@{broker.host}:{broker.port}//"
    os.environ["CELERY_TEST_QUEUE"] = queue
    from compat import celery_project

    log = tmp_path_factory.mktemp("celery") / "worker.log"
    worker = start_worker(log, f"worker-{queue}@localhost")
    try:
        await_worker(celery_project.app, worker, log)
        yield celery_project
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(20)
        with celery_project.app.connection_for_write() as connection:
            connection.default_channel.queue_delete(queue)
            connection.default_channel.exchange_delete(queue)


def start_worker(log: Path, name: str) -> subprocess.Popen[bytes]:
    """With the default pool of processes, and gossip and mingle as by default."""
    tests = Path(__file__).parent.parent
    command = [
        sys.executable, "-m", "celery", "-A", "compat.celery_project", "worker",
        "--concurrency", "2", "--loglevel", "INFO", "--hostname", name,
    ]  # fmt: skip
    with log.open("wb") as output:
        return subprocess.Popen(
            command, cwd=tests, stdout=output, stderr=subprocess.STDOUT,
            env={**os.environ, "C_FORCE_ROOT": "1"},
        )  # fmt: skip


def await_worker(app: Any, worker: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + UP_WITHIN_S
    while time.monotonic() < deadline:
        assert worker.poll() is None, log.read_text()
        if app.control.ping(timeout=0.5):
            return
    raise AssertionError(f"no worker answered:\n{log.read_text()}")


def test_tasks_return_their_results(project: Any) -> None:
    results = [project.add.delay(number, 1) for number in range(20)]
    assert [result.get(timeout=RESULT_WITHIN_S) for result in results] == list(range(1, 21))


def test_a_tasks_exception_comes_back(project: Any) -> None:
    with pytest.raises(ValueError, match="as asked"):
        project.fail.delay().get(timeout=RESULT_WITHIN_S)


def test_a_chain_hands_results_on(project: Any) -> None:
    from celery import chain

    result = chain(project.add.s(1, 2), project.add.s(3), project.add.s(4)).apply_async()
    assert result.get(timeout=RESULT_WITHIN_S) == 10


def test_a_group_runs_side_by_side(project: Any) -> None:
    from celery import group

    result = group(project.add.s(number, number) for number in range(5)).apply_async()
    assert result.get(timeout=RESULT_WITHIN_S) == [0, 2, 4, 6, 8]


def test_a_retried_task_succeeds_in_the_end(project: Any) -> None:
    assert project.succeed_at_third_attempt.delay().get(timeout=RESULT_WITHIN_S) == 2


def test_a_countdown_delays(project: Any) -> None:
    began = time.monotonic()
    assert project.add.apply_async((1, 1), countdown=0.5).get(timeout=RESULT_WITHIN_S) == 2
    assert time.monotonic() - began > 0.4


def test_a_revoked_task_does_not_run(project: Any) -> None:
    """Revoked by broadcast while it waits for its time."""
    from celery.exceptions import TaskRevokedError

    result = project.add.apply_async((1, 1), countdown=4.0)
    result.revoke()
    with pytest.raises(TaskRevokedError):
        result.get(timeout=RESULT_WITHIN_S)


def running_tasks(app: Any) -> set[str]:
    (tasks,) = app.control.inspect(timeout=60, limit=1).active().values()
    return {task["id"] for task in tasks}


def test_a_running_task_can_be_terminated(project: Any) -> None:
    from celery.exceptions import TaskRevokedError

    result = project.sleep.delay(60)
    deadline = time.monotonic() + RESULT_WITHIN_S
    while result.id not in running_tasks(project.app):
        assert time.monotonic() < deadline, "the task did not start"
    result.revoke(terminate=True)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=RESULT_WITHIN_S)


def test_the_worker_can_be_inspected(project: Any) -> None:
    (stats,) = project.app.control.inspect(timeout=60, limit=1).stats().values()
    assert stats["pool"]["max-concurrency"] == 2
