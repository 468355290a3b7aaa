"""Names and arguments as handlers want them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from warren.model.errors import not_found
from warren.model.fields import Table

if TYPE_CHECKING:
    from warren.channels.channel import Channel


def clean_name(name: str) -> str:
    """RabbitMQ takes line breaks out of names, since they break listings."""
    return name.replace("\r", "").replace("\n", "")


def arguments_of(method: Any) -> Table:
    """pamqp says dict; our decoder puts the typed table there."""
    return cast(Table, method.arguments)


def queue_or_last(channel: Channel, name: str) -> str:
    """An empty name means the queue this channel declared last."""
    if name:
        return clean_name(name)
    if channel.last_queue is None:
        raise not_found("no previously declared queue")
    return channel.last_queue
