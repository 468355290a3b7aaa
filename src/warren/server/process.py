"""A node as a process: its loop, its signals, its end.

SIGTERM and SIGINT ask for a clean stop: clients are told, the store is closed. A second one ends
the process at once, which is as safe as a power cut: what was confirmed is on the disk.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from warren.metadata.store import MetadataError
from warren.server.config import Config
from warren.server.data_directory import DataDirectoryError
from warren.server.logs import EventLog, configure_logs
from warren.server.node import Node
from warren.server.sockets import CannotListenError

if TYPE_CHECKING:
    from starlette.applications import Starlette

EXIT_AT_ONCE: Final = 1

_log = EventLog("node")


class NodeFailedError(Exception):
    """The node could not start, for a reason its operator can mend; the text says which."""


def serve(
    config: Config,
    pending: Sequence[str] = (),
    make_application: Callable[[Node], Starlette] | None = None,
) -> None:
    """Run a node until it is told to stop. `pending` are settings given without effect."""
    configure_logs(config.log_level, config.log_levels)
    for key in pending:
        _log.warning("setting has no effect in this version", key=key)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(config, make_application))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one; without it everything works, only slower."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(config: Config, make_application: Callable[[Node], Starlette] | None) -> None:
    stop = asyncio.Event()

    def on_signal(number: int) -> None:
        if stop.is_set():
            _log.warning("stopping at once", signal=signal.Signals(number).name)
            sys.stderr.flush()
            os._exit(EXIT_AT_ONCE)
        _log.info("stopping", signal=signal.Signals(number).name)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    node = Node(config, make_application=make_application)
    node.on_stop_wanted = stop.set
    try:
        await node.start()
    except (CannotListenError, DataDirectoryError, MetadataError) as error:
        raise NodeFailedError(str(error)) from error
    await stop.wait()
    await node.stop()
