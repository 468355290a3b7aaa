"""The length limit of a queue: whether its messages, or one that comes, are beyond it."""

from __future__ import annotations

from warren.queues.backing import BackingQueue
from warren.queues.settings import Overflow, QueueSettings
from warren.wire.codec import Message


def would_overflow(limits: QueueSettings, backing: BackingQueue, message: Message) -> bool:
    """True if the queue would be too long with this message."""
    if limits.max_length is not None and backing.length + 1 > limits.max_length:
        return True
    grown_bytes = backing.ready_bytes + len(message.body)
    return limits.max_length_bytes is not None and grown_bytes > limits.max_length_bytes


def may_drop_at_once(limits: QueueSettings, backing: BackingQueue, message: Message) -> bool:
    """True if the message may be the head that has to make room for itself."""
    if limits.overflow is not Overflow.DROP_HEAD:
        return False
    bytes_max = limits.max_length_bytes
    if limits.max_length == 0 or (bytes_max is not None and len(message.body) > bytes_max):
        return True
    return limits.top_level is not None and would_overflow(limits, backing, message)


def overflows(limits: QueueSettings, backing: BackingQueue) -> bool:
    """True if the head is to make room: only drop-head takes back what was accepted."""
    if limits.overflow is not Overflow.DROP_HEAD:
        return False
    if limits.max_length is not None and backing.length > limits.max_length:
        return True
    return limits.max_length_bytes is not None and backing.ready_bytes > limits.max_length_bytes
