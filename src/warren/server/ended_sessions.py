"""Ended sessions of the management page: those whose users have signed out before their time.

A session is in its cookie and nowhere else, so a copy of the cookie would go on after its user has
signed out. A node therefore remembers the ends of sessions until these are over by themselves, in a
file, as sessions survive a restart. The nodes of a cluster tell each other; a node that is down
meanwhile does not hear of it, and lets such a session in until its end.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import msgspec

from warren.model.logs import EventLog
from warren.model.unreadable import UNREADABLE

PER_USER_MAX: Final = 100
"""Ends remembered of each user, so that nobody can make a node forget those of others."""

_log = EventLog("management")


class EndedSessions:
    """By user: the ids of sessions, and the time of day in s until which each is remembered."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ended: dict[str, dict[str, float]] | None = None

    def holds(self, user: str, session: str) -> bool:
        return session in self._loaded().get(user, {})

    def add(self, user: str, session: str, until_s: float) -> None:
        now_s = time.time()
        ended = self._loaded()
        for name, sessions in tuple(ended.items()):
            ended[name] = {each: end_s for each, end_s in sessions.items() if end_s > now_s}
        sessions = ended.setdefault(user, {})
        while len(sessions) >= PER_USER_MAX:
            del sessions[next(iter(sessions))]
        sessions[session] = until_s
        self._ended = {name: sessions for name, sessions in ended.items() if sessions}

    def save(self) -> None:
        """Write the file; may be called in a thread."""
        draft = self._path.with_name(f"{self._path.name}.new")
        try:
            draft.write_bytes(msgspec.json.encode(self._ended or {}))
            draft.replace(self._path)
        except OSError as error:
            _log.warning("ends of sessions are forgotten with this process", reason=error)

    def _loaded(self) -> dict[str, dict[str, float]]:
        if self._ended is None:
            self._ended = {}
            try:
                content = self._path.read_bytes() if self._path.exists() else b"{}"
                self._ended = msgspec.json.decode(content, type=dict[str, dict[str, float]])
            except (OSError, *UNREADABLE) as error:
                _log.warning("ends of sessions could not be loaded", reason=error)
        return self._ended
