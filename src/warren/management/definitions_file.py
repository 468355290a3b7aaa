"""`load_definitions`: a file that a node imports at every start, before clients come.

What is in it is made if it is missing, and nothing is taken away; so to import it again does no
harm. A file that cannot be read or makes no sense ends the start: to come up without the queues
that clients count on would be worse.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from warren.management.definitions_import import DefinitionsImport
from warren.management.errors import REFUSED, Refusal
from warren.server.data_directory import DataDirectoryError

if TYPE_CHECKING:
    from warren.server.node import Node

ACTING_USER: Final = "rmq-internal"


async def load_definitions(node: Node) -> None:
    """Raises DataDirectoryError, whose text names the file."""
    path = Path(node.config.load_definitions)
    try:
        raw = await asyncio.to_thread(path.read_bytes)
        await DefinitionsImport(node, ACTING_USER).run(raw)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataDirectoryError(f"load_definitions: cannot read {path}: {reason}") from None
    except Refusal as error:
        raise DataDirectoryError(f"load_definitions: {path}: {error.reason}") from None
    except REFUSED as error:
        raise DataDirectoryError(f"load_definitions: {path}: {error}") from None
