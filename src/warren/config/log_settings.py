"""Log settings: keys `log.*` for the console, a file with its rotation, and levels of categories.

Both outputs may be on. A line is written to an output if its level is at least that of the output
and that of its category.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warren.config.declaring import setting
from warren.config.values import one_of, size_within, switch, text, whole_number
from warren.model.log_rotation import EVERY_MIDNIGHT, rotation_time
from warren.model.logs import LEVELS

FILE_NAME: Final = "warren.log"
DIRECTORY_NAME: Final = "log"
JSON: Final = "json"
PLAIN_TEXT: Final = "plaintext"
FILE_BYTES_DEFAULT: Final = 10_485_760
FILES_DEFAULT: Final = 10

_LEVEL: Final = one_of(*LEVELS)
_FORMAT: Final = one_of(PLAIN_TEXT, JSON)


def log_file(value: str) -> str:
    """A name; true is a name of ours, false is none."""
    return {"true": FILE_NAME, "false": ""}.get(value.lower(), text(value))


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Outputs of the log and their levels."""

    has_console: bool = setting("console", switch, True, "true: the log goes to standard error")
    console_level: str = setting(
        "console.level", _LEVEL, "info", "lowest level that is logged on the console"
    )
    console_format: str = setting(
        "console.formatter", _FORMAT, PLAIN_TEXT, "form of the lines: plaintext, or json objects"
    )
    file: str = setting(
        "file", log_file, "", "name of a file that the log goes to, as well; false: no file"
    )
    directory: str = setting(
        "dir", text, "", f"directory of the log file; if not set, {DIRECTORY_NAME} in the data"
        " directory",
    )  # fmt: skip
    file_level: str = setting(
        "file.level", _LEVEL, "info", "lowest level that is logged in the file"
    )
    file_format: str = setting(
        "file.formatter", _FORMAT, PLAIN_TEXT, "form of the lines: plaintext, or json objects"
    )
    rotation_date: str = setting(
        "file.rotation.date", rotation_time, "",
        f"time at which a new file is begun, such as {EVERY_MIDNIGHT} for every midnight",
    )  # fmt: skip
    rotation_bytes: int = setting(
        "file.rotation.size", size_within(0, 2**40), FILE_BYTES_DEFAULT,
        "size at which a new file is begun; 0: at no size",
    )  # fmt: skip
    rotation_count: int = setting(
        "file.rotation.count", whole_number(1, 1_000), FILES_DEFAULT,
        "older files that are kept; the oldest is deleted",
    )  # fmt: skip
    connection_level: str = setting(
        "connection.level", _LEVEL, "debug", "lowest level that is logged about connections"
    )
    channel_level: str = setting(
        "channel.level", _LEVEL, "debug", "lowest level that is logged about channels"
    )
    queue_level: str = setting(
        "queue.level", _LEVEL, "debug", "lowest level that is logged about queues"
    )

    @property
    def level(self) -> str:
        """The lowest level of all outputs."""
        outputs = [self.console_level] * self.has_console + [self.file_level] * bool(self.file)
        return min(outputs, key=LEVELS.__getitem__, default="none")

    @property
    def category_levels(self) -> dict[str, str]:
        """Level of each category, never below that of all outputs."""
        categories = {
            "connection": self.connection_level,
            "channel": self.channel_level,
            "queue": self.queue_level,
        }
        return {
            name: max(level, self.level, key=LEVELS.__getitem__)
            for name, level in categories.items()
        }

    def path(self, data_dir: Path) -> Path | None:
        """Return the file of the log, if there is one."""
        if not self.file:
            return None
        return Path(self.directory or data_dir / DIRECTORY_NAME) / self.file


NO_LOG_SETTINGS: Final = LogSettings()
