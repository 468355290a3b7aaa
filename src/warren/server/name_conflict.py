"""Is there a living node of our own name? Ask at the address that its session tells.

A session outlives a node that is killed for a while, so that it is there does not prove much; but
an answer does. Whoever answers nothing, or refuses, is not judged: its session ends or it does not.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

from warren.cluster.link.control import Control, Refused
from warren.cluster.link.handshake import NONCE_BYTES, ClientHandshake
from warren.config.values import Endpoint
from warren.server.links import Links

ANSWER_S_MAX: Final = 1.0


async def is_name_in_use(links: Links, address: Endpoint) -> bool:
    """A node refuses a link to one of its own name."""
    answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    link = links.new_link(is_client=True)

    def hear(control: Control) -> None:
        if not answered.done():
            answered.set_result(isinstance(control, Refused))

    def on_lost(_reason: str) -> None:
        if not answered.done():
            answered.set_result(False)

    link.handshake = hear
    link.on_lost = on_lost
    hello = ClientHandshake(links.me, links.me.node, secrets.token_bytes(NONCE_BYTES)).begin()
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            await asyncio.get_running_loop().create_connection(
                lambda: link, address.host or "127.0.0.1", address.port, ssl=links.client_tls
            )
            link.say(hello)
            return await answered
    except (OSError, TimeoutError):
        return False
    finally:
        link.on_lost = None
        link.abort("it was only asked whether it is there")
