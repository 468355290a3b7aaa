"""A Celery application as projects have one; the worker and the test import it."""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery

QUEUE = os.environ.get("CELERY_TEST_QUEUE", "celery")

app = Celery("project", broker=os.environ.get("CELERY_TEST_BROKER"), backend="rpc://")
app.conf.update(
    task_default_queue=QUEUE,
    result_expires=60,
    broker_connection_retry_on_startup=True,
    task_track_started=True,
    worker_prefetch_multiplier=1,
    task_acks_late=True,
)


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task
def fail() -> None:
    raise ValueError("as asked")


@app.task(bind=True, max_retries=3)
def succeed_at_third_attempt(self: Any) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return int(self.request.retries)


@app.task
def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds
