"""Limits of memory and disk set while the broker runs, the way the broker under test allows.

Warren runs in a thread and its node is asked. A reference broker is told by its command line tool:
`WARREN_TEST_CTL` is how rabbitmqctl is called for the broker at `WARREN_TEST_BROKER`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from acceptance.administration import DONE_WITHIN_S, InProcessAdministration
from broker_process import Address

MEMORY_DEFAULT: Final = 0.4
DISK_DEFAULT: Final = "1MB"
MORE_THAN_ANY_DISK: Final = "900000GB"


class AlarmControl(Protocol):
    address: Address

    def set_memory_watermark(self, fraction: float) -> None: ...

    def set_disk_free_limit(self, size: str) -> None: ...

    def connection_states(self) -> list[str]: ...

    def stop(self) -> None: ...


class InProcessAlarmControl(InProcessAdministration):
    def set_memory_watermark(self, fraction: float) -> None:
        from warren.flow.units import Relative

        self.on_loop(lambda: self.node.alarms.set_memory_watermark(Relative(fraction)))

    def set_disk_free_limit(self, size: str) -> None:
        from warren.flow.units import Absolute, parse_size

        self.on_loop(lambda: self.node.alarms.set_disk_free_limit(Absolute(parse_size(size))))

    def connection_states(self) -> list[str]:
        return sorted(self.on_loop(lambda: [c.state for c in self.node.connections]))

    @property
    def node(self) -> Any:
        return self._node

    def on_loop(self, action: Callable[[], Any]) -> Any:
        async def act() -> Any:
            return action()

        return self._run(act())


class CommandAlarmControl:
    def __init__(self, address: Address, command: str) -> None:
        self.address = address
        self._command = shlex.split(command)

    def _call(self, *arguments: str) -> str:
        command = [*self._command, *arguments]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=3 * DONE_WITHIN_S
        )
        return done.stdout

    def set_memory_watermark(self, fraction: float) -> None:
        self._call("set_vm_memory_high_watermark", str(fraction))

    def set_disk_free_limit(self, size: str) -> None:
        self._call("set_disk_free_limit", size)

    def connection_states(self) -> list[str]:
        return sorted(self._call("-q", "list_connections", "state").split()[1:])

    def stop(self) -> None:
        """Not ours to stop."""


def make_alarm_control(data_dir: Path) -> AlarmControl:
    if "WARREN_TEST_CTL" not in os.environ:
        return InProcessAlarmControl(data_dir)
    host, _, port = os.environ["WARREN_TEST_BROKER"].rpartition(":")
    return CommandAlarmControl(Address(host, int(port)), os.environ["WARREN_TEST_CTL"])
