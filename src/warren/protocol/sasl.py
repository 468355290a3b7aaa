"""How a client proves who it is: the mechanisms offered in connection.start.

All take one response, without a challenge, so connection.secure is never needed: PLAIN and
AMQPLAIN a user name and a password, EXTERNAL nothing, since the client has proved itself by its
certificate when TLS was set up. A response that cannot be read is the client's mistake (502), which
differs from a wrong password: that one is the business of whoever checks the credentials.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from warren.model.erlang import render_text_binary
from warren.model.errors import LoginRefused, syntax_error
from warren.model.fields import Table
from warren.wire.tables import MalformedTable, decode_table_body


class Credentials(NamedTuple):
    """Without a password: `username` has proved itself already."""

    username: str
    password: bytes | None


class Mechanism(Protocol):
    @property
    def name(self) -> str: ...

    def read(self, response: bytes) -> Credentials:
        """Raises HardError 502 if the response does not have the mechanism's form, LoginRefused
        if this client cannot log in by it."""
        ...


class Plain:
    """RFC 4616: NUL user NUL password, with no identity to act for in front."""

    name: Final = "PLAIN"

    def read(self, response: bytes) -> Credentials:
        parts = response.split(b"\0")
        if len(parts) != 3 or parts[0]:
            raise syntax_error(f"response {render_text_binary(response)} invalid")
        return Credentials(_text(parts[1]), parts[2])


class AmqPlain:
    """AMQP 0-8's own: a field table without its length, holding LOGIN and PASSWORD."""

    name: Final = "AMQPLAIN"

    def read(self, response: bytes) -> Credentials:
        try:
            table = decode_table_body(response)
        except MalformedTable:
            raise syntax_error(f"response {render_text_binary(response)} invalid") from None
        login, password = _longstr(table, "LOGIN"), _longstr(table, "PASSWORD")
        if login is None or password is None:
            # RabbitMQ repeats the whole table here, with the password if there was one.
            raise syntax_error("AMQPLAIN auth info is missing LOGIN or PASSWORD field")
        return Credentials(_text(login), password)


class External:
    """The certificate of this client says who it is, or else `refusal` why it does not."""

    name: Final = "EXTERNAL"

    def __init__(self, username: str, refusal: str = "") -> None:
        self._username = username
        self._refusal = refusal

    def read(self, response: bytes) -> Credentials:
        if self._refusal:
            raise LoginRefused(self._refusal)
        return Credentials(self._username, None)


# Offered to everybody; EXTERNAL only where there can be a certificate.
KNOWN_MECHANISMS: Final[tuple[Mechanism, ...]] = (Plain(), AmqPlain())
MECHANISM_NAMES: Final = frozenset({Plain.name, AmqPlain.name, External.name})


def _longstr(table: Table, name: str) -> bytes | None:
    field = table.get(name)
    if field is None or field.kind != "S" or not isinstance(field.value, bytes):
        return None
    return field.value


def _text(name: bytes) -> str:
    """A name that is not UTF-8 belongs to nobody; it must still reach the check, and the log."""
    return name.decode(errors="surrogateescape")
