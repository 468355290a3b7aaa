"""Connection negotiation: from the client's first eight bytes to an open virtual host.

      client                     server              state after it
      protocol header  ------->                      starting
                       <-------  start
      start-ok         ------->  (credentials)       tuning
                       <-------  tune
      tune-ok          ------->  (limits)            opening
      open             ------->  (virtual host)      running
                       <-------  open-ok

Clients may send it all at once. How a mistake is answered depends on how far we are. Before
`opening`, whoever is there has proved nothing: RabbitMQ says no word and keeps the socket for
three seconds, so that guessing is slow, and so do we. Three refusals are worth a connection.close
even then, because they save an honest client's author a search: a wrong login (if the client says
that it understands it), an unreadable response, and limits out of range. From `opening` on, every
mistake gets its connection.close.

The machine decides, the connection does: `handle(event)` returns actions and touches nothing. It
stays in use while the connection runs, to answer negotiation methods that come too late.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeAlias, cast

from pamqp.commands import Connection

from warren.model.erlang import render_text_binary
from warren.model.errors import (
    HardError,
    LoginRefused,
    channel_error,
    command_invalid,
    login_refused,
    not_allowed,
    unexpected_frame,
)
from warren.model.fields import EMPTY_TABLE, Table
from warren.protocol.capabilities import ClientCapabilities, connection_name
from warren.protocol.negotiation import (
    PROTOCOL_HEADER,
    Action,
    CloseConnection,
    CloseSilently,
    Event,
    MethodReceived,
    Negotiated,
    Opened,
    ProtocolHeader,
    SendMethod,
    SendProtocolHeaderAndClose,
    StrayFrame,
    Timeout,
    UnreadableFrame,
    UserT,
)
from warren.protocol.sasl import KNOWN_MECHANISMS, MECHANISM_NAMES, Credentials, Mechanism
from warren.wire.methods import Method, ids_of

# Header -> the version that connection.start names. RabbitMQ also serves clients of 0-8 and 0-9;
# all that a client can do with them has the same bytes in 0-9-1.
SUPPORTED_HEADERS: Final = {
    PROTOCOL_HEADER: (0, 9),
    b"AMQP\x01\x01\x00\x09": (0, 9),
    b"AMQP\x01\x01\x08\x00": (8, 0),
    b"AMQP\x01\x01\x09\x01": (8, 0),
}
FRAME_MAX_LOWEST: Final = 4096
CHANNEL_MAX_LOWEST: Final = 1
CHANNEL_NUMBER_MAX: Final = 65535
SILENT_CLOSE_DELAY_S: Final = 3
SNIPPET_BYTES_MAX: Final = 16
_TLS_CLIENT_HELLO: Final = b"\x16\x03"

_Ids: TypeAlias = tuple[int, int]
_NO_METHOD: Final[_Ids] = (0, 0)


class State(Enum):
    """The values are RabbitMQ's words: they appear in error texts."""

    HEADER = "pre_init"
    STARTING = "starting"
    TUNING = "tuning"
    OPENING = "opening"
    RUNNING = "running"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class HandshakeSettings:
    server_properties: Table
    mechanisms: tuple[Mechanism, ...] = KNOWN_MECHANISMS
    channel_max: int = 2047
    frame_max: int = 131072
    heartbeat_s: int = 60


class _ToldError(Exception):
    """A refusal before `opening` that the client gets to read all the same."""

    def __init__(self, error: HardError, ids: _Ids = _NO_METHOD, reason: str = "") -> None:
        super().__init__(str(error))
        self.error = error
        self.ids = ids
        self.reason = reason or str(error)


class Handshake(Generic[UserT]):
    """`authenticate(mechanism, credentials)` raises LoginRefused and `open_vhost(user, vhost)` a
    HardError when they refuse; both answer at once."""

    def __init__(
        self,
        settings: HandshakeSettings,
        authenticate: Callable[[str, Credentials], UserT],
        open_vhost: Callable[[UserT, str], None],
    ) -> None:
        self.state = State.HEADER
        self._settings = settings
        self._authenticate = authenticate
        self._open_vhost = open_vhost
        self._user: UserT | None = None
        self._mechanism = ""
        self._client_properties = EMPTY_TABLE
        self._capabilities = ClientCapabilities()

    def handle(self, event: Event) -> list[Action[UserT]]:
        if self.state is State.CLOSED:
            return []
        match event:
            case ProtocolHeader(header):
                return self._greet(header)
            case MethodReceived(method):
                return self._step(method)
            case StrayFrame(frame_type, payload):
                return self._fail(_stray(frame_type, payload), _NO_METHOD)
            case UnreadableFrame(error, class_id, method_id):
                return self._fail(error, (class_id, method_id))
            case Timeout():
                return self._give_up()

    def _greet(self, header: bytes) -> list[Action[UserT]]:
        version = SUPPORTED_HEADERS.get(header)
        if self.state is not State.HEADER or version is None:
            self.state = State.CLOSED
            return [SendProtocolHeaderAndClose(_bad_header(header))]
        self.state = State.STARTING
        return [
            SendMethod(
                Connection.Start(
                    *version,
                    server_properties=cast("Any", self._settings.server_properties),
                    mechanisms=" ".join(m.name for m in self._settings.mechanisms),
                    locales="en_US",
                )
            )
        ]

    def _step(self, method: Method) -> list[Action[UserT]]:
        ids = ids_of(method)
        step = _TRANSITIONS.get((self.state, type(method)))
        if step is None:
            state = self.state.value
            return self._fail(channel_error(f"unexpected method in connection state {state}"), ids)
        perform, next_state = step
        try:
            actions: list[Action[UserT]] = perform(self, method)
        except _ToldError as refusal:
            self.state = State.CLOSED
            return [CloseConnection(refusal.error, *refusal.ids, refusal.reason)]
        except HardError as error:
            return self._fail(error, ids)
        self.state = next_state
        return actions

    def _fail(self, error: HardError, ids: _Ids) -> list[Action[UserT]]:
        is_told = self.state in {State.OPENING, State.RUNNING}
        self.state = State.CLOSED
        if is_told:
            return [CloseConnection(error, *ids, str(error))]
        return [CloseSilently(SILENT_CLOSE_DELAY_S, str(error))]

    def _give_up(self) -> list[Action[UserT]]:
        if self.state is State.RUNNING:
            return []
        state, self.state = self.state.value, State.CLOSED
        return [CloseSilently(0, f"handshake timeout in connection state {state}")]

    def _start_ok(self, method: Method) -> list[Action[UserT]]:
        assert isinstance(method, Connection.StartOk)
        self._client_properties = cast("Table", method.client_properties)
        self._capabilities = ClientCapabilities.of(self._client_properties)
        mechanism = self._choose_mechanism(method.mechanism)
        self._mechanism = mechanism.name
        self._user = self._log_in(mechanism, _as_bytes(method.response))
        settings = self._settings
        tune = Connection.Tune(settings.channel_max, settings.frame_max, settings.heartbeat_s)
        return [SendMethod(tune)]

    def _choose_mechanism(self, name: str) -> Mechanism:
        for mechanism in self._settings.mechanisms:
            if mechanism.name == name:
                return mechanism
        fault = "invalid" if name in MECHANISM_NAMES else "unknown"
        raise command_invalid(f"{fault} authentication mechanism '{name}'")

    def _log_in(self, mechanism: Mechanism, response: bytes) -> UserT:
        try:
            return self._authenticate(mechanism.name, mechanism.read(response))
        except HardError as error:
            # The error repeats the response, which may hold a password: not for the log.
            reason = f"unreadable {mechanism.name} response"
            raise _ToldError(error, ids_of(Connection.StartOk()), reason) from None
        except LoginRefused as refusal:
            refused = login_refused(
                f"Login was refused using authentication mechanism {mechanism.name}. "
                "For details see the broker logfile."
            )
            reason = f"{mechanism.name} login refused: {refusal}"
            if self._capabilities.authentication_failure_close:
                raise _ToldError(refused, reason=reason) from None
            raise login_refused(reason) from None

    def _tune_ok(self, method: Method) -> list[Action[UserT]]:
        assert isinstance(method, Connection.TuneOk)
        settings, frame_max, channel_max = self._settings, method.frame_max, method.channel_max
        try:
            _check_limit("frame_max", frame_max, FRAME_MAX_LOWEST, settings.frame_max)
            _check_limit("channel_max", channel_max, CHANNEL_MAX_LOWEST, settings.channel_max)
        except HardError as error:
            if frame_max == 0:
                raise
            raise _ToldError(error, ids_of(method)) from None
        return [Negotiated(frame_max, method.heartbeat, channel_max or CHANNEL_NUMBER_MAX)]

    def _open(self, method: Method) -> list[Action[UserT]]:
        assert isinstance(method, Connection.Open)
        assert self._user is not None, "nobody reaches `opening` without having logged in"
        self._open_vhost(self._user, method.virtual_host)
        opened = Opened(
            vhost=method.virtual_host,
            user=self._user,
            mechanism=self._mechanism,
            capabilities=self._capabilities,
            client_properties=self._client_properties,
            connection_name=connection_name(self._client_properties),
        )
        return [opened, SendMethod(Connection.OpenOk())]


_Perform: TypeAlias = Callable[[Handshake[Any], Method], list[Action[Any]]]

# A method that is not here, in the state it comes in, is out of order.
_TRANSITIONS: Final[dict[tuple[State, type[Method]], tuple[_Perform, State]]] = {
    (State.STARTING, Connection.StartOk): (Handshake._start_ok, State.TUNING),
    (State.TUNING, Connection.TuneOk): (Handshake._tune_ok, State.OPENING),
    (State.OPENING, Connection.Open): (Handshake._open, State.RUNNING),
}


def _bad_header(header: bytes) -> str:
    if header.startswith(_TLS_CLIENT_HELLO):
        return "the client speaks TLS, and this port does not"
    return f"bad protocol header {header!r}"


def _check_limit(field: str, value: int, lowest: int, highest: int) -> None:
    """Zero means "no limit", on either side."""
    detail = " (no limit)" if field == "channel_max" and value == 0 else ""
    if 0 < value < lowest:
        complaint = f"lower than the minimum allowed value ({lowest})"
    elif highest and (value == 0 or value > highest):
        complaint = f"higher than the maximum allowed value ({highest})"
    else:
        return
    raise not_allowed(f"negotiated {field} = {value}{detail} is {complaint}")


def _stray(frame_type: int, payload: bytes) -> HardError:
    extent = "all" if len(payload) <= SNIPPET_BYTES_MAX else f"first {SNIPPET_BYTES_MAX}"
    snippet = render_text_binary(payload[:SNIPPET_BYTES_MAX])
    return unexpected_frame(f"type {frame_type}, {extent} octets = {snippet}")


def _as_bytes(response: str | bytes) -> bytes:
    return response.encode(errors="surrogateescape") if isinstance(response, str) else response
