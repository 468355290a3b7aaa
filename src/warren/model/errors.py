"""AMQP errors as exceptions that carry the reply code and text of RabbitMQ.

AMQP knows two kinds: a *soft* error closes the channel, a *hard* one the connection. Code that
finds the mistake raises one of the constructors below with RabbitMQ's wording; whoever dispatched
the method adds the class and method ids when it answers.
"""

from __future__ import annotations

from typing import Final

REPLY_TEXT_BYTES_MAX: Final = 255
_ELLIPSIS: Final = b"..."

NO_ROUTE: Final = 312


def cut_reply_text(text: str) -> str:
    """A short string holds 255 bytes; RabbitMQ cuts longer texts to 252 and adds dots."""
    raw = text.encode()
    if len(raw) <= REPLY_TEXT_BYTES_MAX:
        return text
    kept = raw[: REPLY_TEXT_BYTES_MAX - len(_ELLIPSIS)]
    return (kept + _ELLIPSIS).decode(errors="ignore")


class AmqpError(Exception):
    """The client did something AMQP forbids; `code` and `reply_text` go back to it."""

    method_ids: tuple[int, int] | None = None
    """Class and method to blame, where that is not the method being handled; (0, 0): none."""

    def __init__(self, code: int, name: str, explanation: str) -> None:
        super().__init__(f"{name} - {explanation}")
        self.code = code
        self.name = name
        self.explanation = explanation

    @property
    def reply_text(self) -> str:
        return cut_reply_text(f"{self.name} - {self.explanation}")


class SoftError(AmqpError):
    """Closes the channel."""


class QueueGone(SoftError):
    """Another node was asked about a queue that it does not have: one of the two is behind.

    Whoever can look again, when it knows more, does; to others the queue is not there.
    """

    def __init__(self, queue: str) -> None:
        super().__init__(404, "NOT_FOUND", f"no {queue}")


class HardError(AmqpError):
    """Closes the connection."""


class LoginRefused(Exception):
    """Bad credentials. The text is for the broker's log alone: the peer is not told the reason."""


def access_refused(explanation: str) -> SoftError:
    return SoftError(403, "ACCESS_REFUSED", explanation)


def not_found(explanation: str) -> SoftError:
    return SoftError(404, "NOT_FOUND", explanation)


def resource_locked(explanation: str) -> SoftError:
    return SoftError(405, "RESOURCE_LOCKED", explanation)


def precondition_failed(explanation: str) -> SoftError:
    return SoftError(406, "PRECONDITION_FAILED", explanation)


def connection_forced(explanation: str) -> HardError:
    return HardError(320, "CONNECTION_FORCED", explanation)


def login_refused(explanation: str) -> HardError:
    return HardError(403, "ACCESS_REFUSED", explanation)


def frame_error(explanation: str) -> HardError:
    return HardError(501, "FRAME_ERROR", explanation)


def syntax_error(explanation: str) -> HardError:
    return HardError(502, "SYNTAX_ERROR", explanation)


def command_invalid(explanation: str) -> HardError:
    return HardError(503, "COMMAND_INVALID", explanation)


def channel_error(explanation: str) -> HardError:
    return HardError(504, "CHANNEL_ERROR", explanation)


def unexpected_frame(explanation: str) -> HardError:
    return HardError(505, "UNEXPECTED_FRAME", explanation)


def metadata_unreachable(explanation: str) -> SoftError:
    """For AMQP a 506 is hard; but the connection is fine, and so are its other channels."""
    return SoftError(506, "RESOURCE_ERROR", explanation)


def not_allowed(explanation: str) -> HardError:
    return HardError(530, "NOT_ALLOWED", explanation)


def not_implemented(explanation: str) -> HardError:
    return HardError(540, "NOT_IMPLEMENTED", explanation)


def internal_error(explanation: str) -> HardError:
    return HardError(541, "INTERNAL_ERROR", explanation)
