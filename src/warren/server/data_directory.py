"""The directory a node keeps everything in, and whose it is."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from warren.model.logs import EventLog

NAME_FILE: Final = "node"
# Of a node of a cluster: which one that is.
MEMBER_FILE: Final = "member"
METADATA_FILE: Final = "metadata.sqlite"
# Ids that exchanges remember, as the last stop in good order left them.
WINDOWS_FILE: Final = "exchange-windows"
# When the oldest message of each queue came.
HEADS_FILE: Final = "queue-heads"
# What the management page signs sessions with, of a node on its own.
PAGE_KEY_FILE: Final = "page-key"
# Sessions of the page that were ended before their time.
ENDED_SESSIONS_FILE: Final = "page-sessions-ended"
# What a node makes in its directory, besides the lock that it holds while it runs.
_OWN_FILES: Final = (
    NAME_FILE,
    MEMBER_FILE,
    "lease",
    f"{METADATA_FILE}*",
    f"{WINDOWS_FILE}*",
    f"{HEADS_FILE}*",
    f"{PAGE_KEY_FILE}*",
    f"{ENDED_SESSIONS_FILE}*",
)
_OWN_DIRECTORIES: Final = ("msg_stores",)
# Messages and hashes of passwords are nobody's business but the broker's.
PRIVATE_UMASK: Final = 0o077
_OTHERS: Final = 0o007

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NOT_WRITABLE: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_IN_THE_WAY: Final = frozenset({errno.ENOTDIR, errno.EEXIST, errno.EISDIR})


_log = EventLog("node")


class DataDirectoryError(Exception):
    """The data directory cannot be used; the text is for the operator."""


def advice(error: OSError) -> str:
    """What an operator can do about it."""
    if error.errno in NO_ROOM:
        return "free some space there, or choose another directory with --data-dir"
    if error.errno in _NOT_WRITABLE:
        return (
            "make it writable for the user that runs the broker, or choose another directory "
            "with --data-dir"
        )
    if error.errno in _IN_THE_WAY:
        return "move away what is in the way, or choose another directory with --data-dir"
    return "mend that and start again; nothing was given up"


def claim_data_directory(path: Path, node: str) -> None:
    """Make it if it is missing. What another node keeps there is not this one's to serve."""
    name_file = path / NAME_FILE
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _close_to_others(path)
        owner = name_file.read_text().strip() if name_file.exists() else ""
        if not owner:
            _write_name(name_file, node)
    except OSError as error:
        raise DataDirectoryError(
            f"cannot use the data directory {path}: {(error.strerror or str(error)).lower()}; "
            f"{advice(error)}"
        ) from error
    if owner and owner != node:
        raise DataDirectoryError(
            f"the data directory {path} belongs to node {owner}, and this is {node}; "
            f"choose another with --data-dir, or start with --name {owner}"
        )


def _close_to_others(path: Path) -> None:
    """Take rights from a directory that was made with a careless umask, or by an older version.

    A group that the operator has let in stays in; but the file with the hashes of passwords is the
    broker's alone. A directory of another owner is left as it is.
    """
    for each, unwanted in [(path, _OTHERS), *((f, 0o077) for f in path.glob(f"{METADATA_FILE}*"))]:
        found = each.stat()
        if found.st_uid != os.geteuid() or not found.st_mode & unwanted:
            continue
        wanted = stat.S_IMODE(found.st_mode) & ~unwanted
        each.chmod(wanted)
        _log.warning("closed to other users", path=each, mode=f"{wanted:04o}")


def check_alone(path: Path, metadata_file: str) -> None:
    """What a node on its own has kept would be deleted by a cluster that knows none of it."""
    if (path / metadata_file).exists():
        raise DataDirectoryError(
            f"the data directory {path} belongs to a node on its own: it has a {metadata_file}; "
            "choose another with --data-dir, or start without --metadata etcd://..."
        )


def check_metadata(path: Path, metadata_file: str) -> None:
    """Messages of queues that nobody knows are deleted at a start: here it would be all of them."""
    if (path / MEMBER_FILE).exists():
        raise DataDirectoryError(
            f"the data directory {path} belongs to a node of a cluster; start it with its "
            "--metadata etcd://..., or choose another with --data-dir"
        )
    if (path / metadata_file).exists():
        return
    if any((path / "msg_stores" / "vhosts").glob("*/.vhost")):
        raise DataDirectoryError(
            f"the data directory {path} has messages but no {metadata_file}, which says what "
            "queues they are in; copy it to its place, or, to start without the messages, "
            f"move {path / 'msg_stores'} away"
        )


def _write_name(name_file: Path, node: str) -> None:
    """All of it or nothing: half a name would be another node's."""
    draft = name_file.with_name(f"{NAME_FILE}.draft")
    try:
        with draft.open("w") as file:
            file.write(f"{node}\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(name_file)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


def wipe_data_directory(path: Path) -> None:
    """Delete what a node has kept there, and nothing else. Nobody may be using it."""
    try:
        # The badge and the name go last: a wipe that was cut short is taken up again.
        for name in _OWN_DIRECTORIES:
            if (path / name).exists():
                shutil.rmtree(path / name)
        for pattern in reversed(_OWN_FILES):
            for file in path.glob(pattern):
                file.unlink()
    except OSError as error:
        raise DataDirectoryError(
            f"cannot empty the data directory {path}: {(error.strerror or str(error)).lower()}"
        ) from error
