"""Log outputs of a node, as its configuration has them: standard error, a file, or both."""

from __future__ import annotations

from typing import Final

from warren.config.log_settings import JSON, LogSettings
from warren.config.settings import Config
from warren.model.log_rotation import RotatingLog
from warren.model.logs import LEVELS, JsonFormatter, LineFormatter, LogOutput, console_output

STANDARD_ERROR: Final = "<stderr>"


def log_outputs(config: Config) -> list[LogOutput]:
    """Open the outputs. Raises OSError if the file cannot be made."""
    log, outputs = config.log, list[LogOutput]()
    if log.has_console:
        outputs.append(_as_told(console_output(), log.console_level, log.console_format))
    path = log.path(config.data_dir)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = RotatingLog(path, log.rotation_bytes, log.rotation_count, log.rotation_date)
        outputs.append(_as_told(file, log.file_level, log.file_format))
    return outputs


def log_locations(config: Config) -> list[str]:
    """Return where the log goes, in words that `log_location` and the API show."""
    log: LogSettings = config.log
    path = log.path(config.data_dir)
    return [STANDARD_ERROR] * log.has_console + ([] if path is None else [str(path.absolute())])


def _as_told(output: LogOutput, level: str, form: str) -> LogOutput:
    output.setLevel(LEVELS[level])
    output.setFormatter(JsonFormatter() if form == JSON else LineFormatter())
    return output
