"""A node as a process: its loop, its signals, its end.

SIGTERM and SIGINT ask for a clean stop: clients are told, the store is closed. A second one ends
the process at once, which is as safe as a power cut: what was confirmed is on the disk.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from warren.config.settings import Config
from warren.metadata.directory_lock import DirectoryLock
from warren.metadata.store import MetadataError
from warren.model.logs import EventLog, configure_logs
from warren.server.backends.choosing import UnusableBackend
from warren.server.data_directory import PRIVATE_UMASK, DataDirectoryError, wipe_data_directory
from warren.server.log_outputs import log_outputs
from warren.server.node import Node
from warren.server.service_manager import READY, STOPPING, tell_service_manager
from warren.server.sockets import CannotListenError
from warren.server.tls.context import TlsConfigError

if TYPE_CHECKING:
    from starlette.applications import Starlette

EXIT_AT_ONCE: Final = 1
# Messages are reference counted and form no cycles: looking for some every 700 allocations, which
# is Python's default, is time taken from clients. The second generation is looked through when it
# has 10 times as many objects, which takes 20 ms; making 20 000 queues makes a million of them.
GC_THRESHOLDS: Final = (10_000, 10, 800)
# A start makes a dozen objects for each queue and binding, and all of them stay.
GC_THRESHOLDS_OF_START: Final = (1_000_000, 20, 100)

_log = EventLog("node")


class NodeFailedError(Exception):
    """The node could not start or go on, for a reason its operator can mend; the text says it."""


def serve(
    config: Config,
    pending: Sequence[str] = (),
    make_application: Callable[[Node], Starlette] | None = None,
) -> None:
    """Run a node until it is told to stop. `pending` are settings given without effect."""
    os.umask(PRIVATE_UMASK)
    try:
        outputs = log_outputs(config)
    except OSError as error:
        raise NodeFailedError(
            f"the log file {error.filename} cannot be written: {(error.strerror or '').lower()}; "
            "choose another directory with log.dir, or none with log.file = false"
        ) from error
    configure_logs(config.log.level, config.log.category_levels, outputs=outputs)
    for key in pending:
        _log.warning("setting has no effect in this version", key=key)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(config, make_application))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one; without it everything works, only slower."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class _Wishes:
    """What is to become of the node: `is_wanted` when there is one, `is_reset` if it is to begin
    anew instead of to end."""

    def __init__(self) -> None:
        self.is_wanted = asyncio.Event()
        self.is_reset = False

    def stop(self) -> None:
        self.is_reset = False
        self.is_wanted.set()

    def reset(self) -> None:
        self.is_reset = not self.is_wanted.is_set()
        self.is_wanted.set()

    def on_signal(self, number: int) -> None:
        if self.is_wanted.is_set() and not self.is_reset:
            _log.warning("stopping at once", signal=signal.Signals(number).name)
            sys.stderr.flush()
            os._exit(EXIT_AT_ONCE)
        _log.info("stopping", signal=signal.Signals(number).name)
        self.stop()


async def _serve(config: Config, make_application: Callable[[Node], Starlette] | None) -> None:
    while await _serve_until_reset(config, make_application):
        _log.warning("node is reset", data_dir=config.data_dir)
        try:
            await asyncio.to_thread(wipe_data_directory, config.data_dir)
        except DataDirectoryError as error:
            raise NodeFailedError(str(error)) from error


async def _serve_until_reset(
    config: Config, make_application: Callable[[Node], Starlette] | None
) -> bool:
    """True if the node is to begin anew, without anything it had."""
    wishes = _Wishes()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, wishes.on_signal, number)
    try:
        node = Node(config, make_application=make_application)
    except UnusableBackend as error:
        raise NodeFailedError(str(error)) from error
    gc.set_threshold(*GC_THRESHOLDS_OF_START)
    node.on_stop_wanted = wishes.stop
    node.on_reset_wanted = wishes.reset
    try:
        await node.start()
    except (CannotListenError, TlsConfigError, DataDirectoryError, MetadataError) as error:
        raise NodeFailedError(str(error)) from error
    gc.freeze()  # what a node is made of stays, and is not looked through again
    gc.set_threshold(*GC_THRESHOLDS)
    tell_service_manager(READY)
    await wishes.is_wanted.wait()
    if not wishes.is_reset:
        tell_service_manager(STOPPING)
    await node.stop()
    if node.failure is not None:
        raise NodeFailedError(node.failure)
    return wishes.is_reset


def reset_directory(path: Path) -> None:
    """Empty the directory of a node that does not run. Raises NodeFailedError."""
    lock = DirectoryLock(path)
    try:
        if not path.is_dir():
            raise DataDirectoryError(f"there is no data directory {path}")
        lock.acquire()
        wipe_data_directory(path)
    except (DataDirectoryError, MetadataError) as error:
        raise NodeFailedError(str(error)) from error
    finally:
        lock.release()
