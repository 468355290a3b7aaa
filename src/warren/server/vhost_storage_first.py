"""Makes room for a new virtual host's messages before this node can know of that virtual host.

In a cluster a virtual host is made at one node and a queue in it may get its master at another, at
once. A master that has no room on its disk yet would keep that queue's messages in memory, and lose
what it has confirmed. So the feed of the store waits until the room is there: what is told of the
virtual host, its queues among it, comes after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from warren.metadata.etcd import EtcdStore
from warren.metadata.keys import KeyKind, parse_key, prefix
from warren.metadata.view import Effects
from warren.server.data_directory import DataDirectoryError
from warren.server.message_storage import MessageStorage

_VHOSTS: Final = prefix(KeyKind.VHOST)


async def open_storage_first(
    store: EtcdStore, messages: MessageStorage, give_up: Callable[[str], None]
) -> None:
    """For all virtual hosts there are, and from now on for each that is made."""

    async def prepare(effects: Effects) -> None:
        try:
            for key, entry in effects:
                if entry is not None and key.startswith(_VHOSTS):
                    await _open(messages, key)
        except DataDirectoryError as error:
            give_up(str(error))

    store.prepare_with(prepare)
    for record in await store.range(_VHOSTS):
        await _open(messages, record.key)


async def _open(messages: MessageStorage, key: str) -> None:
    parsed = parse_key(key)
    assert parsed is not None, "it starts like one"
    await messages.open(parsed.parts[0])
