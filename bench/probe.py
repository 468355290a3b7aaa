"""A client that times its confirms, in a process of its own, while others do something."""

from __future__ import annotations

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Final

import pika  # type: ignore[import-untyped]

from bench.apart import Apart

PAUSE_S: Final = 0.004
WARM_UP_S: Final = 0.7
START_S_MAX: Final = 30.0


@dataclass(frozen=True)
class Login:
    port: int
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"

    def connect(self) -> pika.BlockingConnection:
        credentials = pika.PlainCredentials(self.user, self.password)
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, self.vhost, credentials, heartbeat=0)
        )


@dataclass(frozen=True)
class Waits:
    """Seconds that each round trip took, in ascending order."""

    seconds: tuple[float, ...]

    def at(self, share: float) -> float:
        return self.seconds[min(int(len(self.seconds) * share), len(self.seconds) - 1)]

    def shown_ms(self) -> list[str]:
        """p50, p99 and the longest."""
        return [f"{seconds * 1000:.1f}" for seconds in (self.at(0.5), self.at(0.99), self.at(1))]


class Probe:
    """A message and its confirm, every few milliseconds within `with`; then `waits` has them."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self.waits = Waits(())

    def __enter__(self) -> Probe:
        self._client = Apart(_round_trips, self._login)
        if not self._client.pipe.poll(START_S_MAX):
            raise TimeoutError("the probe cannot log in")
        self._client.pipe.recv()
        time.sleep(WARM_UP_S)
        self._began = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        ended = time.perf_counter()
        self._client.pipe.send("enough")
        trips = self._client.result()
        took = (until - since for since, until in trips if until > self._began and since < ended)
        self.waits = Waits(tuple(sorted(took)))


def _round_trips(pipe: Connection, login: Login) -> list[tuple[float, float]]:
    """When each one began and ended, by the clock that all processes of a machine share."""
    connection = login.connect()
    channel = connection.channel()
    channel.queue_declare("probe", arguments={"x-max-length": 10})
    channel.confirm_delivery()
    trips = []
    pipe.send("ready")
    while not pipe.poll(PAUSE_S):
        began = time.perf_counter()
        channel.basic_publish("", "probe", b"x")
        trips.append((began, time.perf_counter()))
    connection.close()
    return trips
