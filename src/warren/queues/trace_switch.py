"""Whether deliveries of a virtual host are traced: one attribute, looked at once per delivery."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


class TraceSwitch:
    """`tell` is called with channel, queue, message and whether it is redelivered, while on."""

    def __init__(self) -> None:
        self.is_on = False
        self.tell: Callable[[Any, Any, Any, bool], None] | None = None


NEVER_TRACED: Final = TraceSwitch()
