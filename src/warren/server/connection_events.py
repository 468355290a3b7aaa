"""What is told of connections and logins, with the properties RabbitMQ's event exchange has."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING, Final

from warren.broker.events import NOBODY, EventBus, Properties, shown_arguments
from warren.config.values import Endpoint
from warren.flow.alarms import AlarmChange
from warren.server.admission import Login
from warren.server.tls.peer import TlsPeer

if TYPE_CHECKING:
    from warren.server.connection import AmqpConnection

_PROTOCOL: Final = "{0,9,1}"


def connection_created(events: EventBus, connection: AmqpConnection) -> None:
    events.tell("connection.created", lambda: _describe(events, connection), connection.user.name)


def connection_closed(events: EventBus, connection: AmqpConnection) -> None:
    events.tell("connection.closed", lambda: _describe_briefly(events, connection), NOBODY)


def login_tried(
    events: EventBus, login: Login, peer: Endpoint, host: Endpoint, is_encrypted: bool
) -> None:
    outcome = "failure" if login.refusal else "success"
    events.tell(
        f"user.authentication.{outcome}",
        lambda: {**_describe_login(login, peer, host), "ssl": is_encrypted},
        NOBODY,
    )


def alarm_changed(events: EventBus, change: AlarmChange) -> None:
    events.tell(
        "alarm.set" if change.is_set else "alarm.cleared",
        lambda: {"source": change.alarm.resource.value, "node": change.alarm.node},
        NOBODY,
    )


def _describe(events: EventBus, connection: AmqpConnection) -> Properties:
    details = connection.details
    peer, host, limits = details.peer, details.host, details.limits
    return {
        **_describe_briefly(events, connection),
        "connected_at": details.connected_at_ms,
        "channel_max": limits.channel_max,
        "frame_max": limits.frame_max,
        "timeout": limits.heartbeat_s,
        "vhost": connection.vhost.name,
        "user": connection.user.name,
        "protocol": _PROTOCOL,
        **tls_facts(details.tls),
        "auth_mechanism": details.mechanism,
        "ssl": details.tls is not None,
        "peer_host": _address(peer),
        "host": _address(host),
        "peer_port": peer.port,
        "port": host.port,
        "type": "network",
    }


def tls_facts(tls: TlsPeer | None) -> dict[str, str]:
    return {
        "ssl_hash": tls.mac if tls else "",
        "ssl_cipher": tls.cipher if tls else "",
        "ssl_key_exchange": tls.key_exchange if tls else "",
        "ssl_protocol": tls.protocol if tls else "",
        "peer_cert_validity": tls.validity if tls else "",
        "peer_cert_issuer": tls.issuer if tls else "",
        "peer_cert_subject": tls.subject if tls else "",
    }


def _describe_briefly(events: EventBus, connection: AmqpConnection) -> Properties:
    named = {} if connection.name is None else {"user_provided_name": connection.name}
    return {
        "client_properties": shown_arguments(connection.details.client_properties),
        "node": events.node_name,
        "pid": connection.pid(),
        "name": connection.full_name,
        **named,
    }


def _describe_login(login: Login, peer: Endpoint, host: Endpoint) -> Properties:
    # The reason is an Erlang string, which goes over the wire as a list of its characters.
    error: Properties = {"error": [*login.refusal.encode()]} if login.refusal else {}
    return {
        **error,
        "auth_mechanism": login.mechanism,
        "protocol": _PROTOCOL,
        "peer_port": peer.port,
        "peer_host": _address(peer),
        "connection_name": f"{peer} -> {host}",
        "host": _address(host),
        "name": login.user,
        "connection_type": "network",
    }


def _address(endpoint: Endpoint) -> str:
    """An address as Erlang writes it: `{127,0,0,1}`."""
    host = endpoint.host or ""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    octets = address.packed
    if isinstance(address, IPv4Address):
        return f"{{{','.join(map(str, octets))}}}"
    pairs = (octets[n] << 8 | octets[n + 1] for n in range(0, len(octets), 2))
    return f"{{{','.join(map(str, pairs))}}}"
