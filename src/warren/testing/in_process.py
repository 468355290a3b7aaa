"""The real broker inside the process of a test, on free ports, in a thread with its own loop.

It is the node that `warren server` runs, with its store on a disk and its HTTP API, not a double of
it: what passes here passes there. A process of its own costs half a second of Python's start and
imports; in a process that has them already, what is left is opening two ports and an empty store.
That is cheap enough for a broker for each test.

What a process does for a node and a thread must not is left out: signals, logs (they go where the
test's own go) and the settings of the garbage collector.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from warren.config.settings import Config

HOST: Final = "127.0.0.1"
USER: Final = "guest"
PASSWORD: Final = "guest"
NODE_NAME: Final = "warren@localhost"
# A test that ended without closing its connections does not wait for their goodbye.
STOP_CONNECTIONS_S: Final = 0.2
# Only a fault of ours takes longer; a machine may be slow.
START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 60.0


class InProcessBroker:
    """A broker that can be started, stopped and started again, at the same ports, with its data.

    `config` is what a rabbitmq.conf would say. Ports are chosen at the first start.
    """

    def __init__(self, data_dir: Path, config: str = "") -> None:
        self.data_dir = data_dir
        self.host: Final = HOST
        self.user: Final = USER
        self.password: Final = PASSWORD
        self._config = config
        self._port = 0
        self._http_port = 0
        self._run: _Run | None = None

    @property
    def port(self) -> int:
        """Where AMQP clients are let in."""
        assert self._port, "the broker was not started"
        return self._port

    @property
    def http_port(self) -> int:
        assert self._http_port, "the broker was not started"
        return self._http_port

    @property
    def url(self) -> str:
        """As clients take it: with user and password, for the virtual host `/`."""
        return f"amqp://{USER}:{PASSWORD}@{HOST}:{self.port}/%2F"

    @property
    def http_url(self) -> str:
        """Of the management page and the HTTP API, without a slash at its end."""
        return f"http://{HOST}:{self.http_port}"

    @property
    def is_running(self) -> bool:
        return self._run is not None

    def start(self) -> None:
        """Returns when clients can connect. Raises what the node raises if it cannot start."""
        assert self._run is None, "the broker runs already"
        run = _Run(self._settings())
        self._port, self._http_port = run.start()
        self._run = run

    def stop(self) -> None:
        """As SIGTERM stops a server. What was confirmed is there after the next start."""
        run, self._run = self._run, None
        if run is not None:
            run.stop()

    def restart(self) -> None:
        self.stop()
        self.start()

    def _settings(self) -> Config:
        from warren.config.file import parse_config
        from warren.config.values import Endpoint

        return replace(
            parse_config(self._config, "config").config(),
            name=NODE_NAME,
            data_dir=self.data_dir,
            tcp_listeners=(Endpoint(HOST, self._port),),
            http_ip=HOST,
            http_port=self._http_port,
        )


class _Run:
    """A node from its start to its stop: the thread and all that belongs to its loop."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._thread = threading.Thread(target=self._serve, name="warren", daemon=True)
        self._is_up = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop
        self._is_stopping: asyncio.Event
        self._ports = (0, 0)

    def start(self) -> tuple[int, int]:
        self._thread.start()
        if not self._is_up.wait(START_S_MAX):
            raise TimeoutError(f"the broker was not ready after {START_S_MAX:g} s")
        self._raise_failure()
        return self._ports

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._is_stopping.set)
        self._thread.join(STOP_S_MAX)
        if self._thread.is_alive():
            raise TimeoutError(f"the broker did not stop within {STOP_S_MAX:g} s")
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _serve(self) -> None:
        from warren.server.process import loop_factory

        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._run_node())
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits
            self._failure = error
        finally:
            self._is_up.set()

    async def _run_node(self) -> None:
        from warren.management.application import build_application
        from warren.server.node import Node

        self._loop = asyncio.get_running_loop()
        self._is_stopping = asyncio.Event()
        node = Node(self._config, make_application=build_application)
        node.stop_connections_s = STOP_CONNECTIONS_S
        node.on_stop_wanted = self._is_stopping.set
        await node.start()
        self._ports = (node.amqp_endpoints[0].port, node.http_endpoint.port)
        self._is_up.set()
        await self._is_stopping.wait()
        await node.stop()


@contextmanager
def running_broker(config: str = "") -> Iterator[InProcessBroker]:
    """A broker with a data directory of its own, both gone at the end."""
    with TemporaryDirectory(prefix="warren-") as directory:
        broker = InProcessBroker(Path(directory) / "data", config)
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()
