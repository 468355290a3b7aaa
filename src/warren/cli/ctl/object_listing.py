"""list_exchanges, list_bindings, list_consumers, list_connections and list_channels."""

from __future__ import annotations

from typing import Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer
from warren.cli.ctl.listing import (
    COLUMN_ARGUMENT,
    Column,
    Item,
    by_name,
    choose,
    connection_pid,
    fields_of,
    fill,
    in_vhost,
    pid_of,
    plain,
    renamed,
    table,
    word,
)
from warren.cli.ctl.terms import Atom
from warren.cli.ctl.verbs import Family, Verb

EXCHANGE_COLUMNS: Final = by_name(
    plain("name"),
    word("type"),
    plain("durable", "auto_delete", "internal"),
    table("arguments"),
    plain("policy"),
)

BINDING_COLUMNS: Final = by_name(
    renamed("source_name", "source"),
    Column("source_kind", lambda _: Atom("exchange"), ("source",)),
    renamed("destination_name", "destination"),
    word("destination_kind", "destination_type"),
    plain("routing_key"),
    table("arguments"),
)


def _channel_name(item: Item) -> str:
    return str((item.get("channel_details") or {}).get("name", ""))


def _channel_pid(item: Item) -> object:
    details = item.get("channel_details") or {}
    return pid_of(str(details.get("node")), "channel", _channel_name(item))


CONSUMER_COLUMNS: Final = by_name(
    Column("queue_name", lambda item: item["queue"]["name"], ("queue",)),
    Column("channel_pid", _channel_pid, ("channel_details",)),
    plain("consumer_tag", "ack_required", "prefetch_count", "active"),
    table("arguments"),
    word("activity_status"),
    Column("channel_name", _channel_name, ("channel_details",)),
    plain("exclusive"),
)


def _protocol(item: Item) -> object:
    """AMQP 0-9-1 is {0,9,1} here."""
    number = str(item.get("protocol", "")).removeprefix("AMQP ")
    return Atom(f"{{{number.replace('-', ',')}}}")


CONNECTION_COLUMNS: Final = by_name(
    Column("pid", lambda i: connection_pid(str(i.get("node")), i["name"]), ("node", "name")),
    plain("name", "port", "host", "peer_port", "peer_host", "ssl", "ssl_protocol"),
    plain("ssl_key_exchange", "ssl_cipher", "ssl_hash"),
    plain("peer_cert_subject", "peer_cert_issuer", "peer_cert_validity"),
    word("state"),
    plain("channels"),
    Column("protocol", _protocol, ("protocol",)),
    plain("auth_mechanism", "user", "vhost", "timeout", "frame_max", "channel_max"),
    table("client_properties"),
    plain("recv_oct", "recv_cnt", "send_oct", "send_cnt", "send_pend", "connected_at"),
    plain("user_provided_name", "node", "bottleneck"),
)


def _connection_of_channel(item: Item) -> object:
    details = item.get("connection_details") or {}
    return connection_pid(str(item.get("node")), str(details.get("name", "")))


CHANNEL_COLUMNS: Final = by_name(
    Column("pid", lambda i: pid_of(str(i.get("node")), "channel", i["name"]), ("node", "name")),
    Column("connection", _connection_of_channel, ("node", "connection_details")),
    plain("name", "number", "user", "vhost", "transactional", "confirm", "consumer_count"),
    plain("messages_unacknowledged", "messages_uncommitted", "acks_uncommitted"),
    plain("messages_unconfirmed", "prefetch_count", "global_prefetch_count"),
    word("state"),
)

BINDING_DEFAULT: Final = tuple(BINDING_COLUMNS)
CONSUMER_DEFAULT: Final = tuple(CONSUMER_COLUMNS)[:7]


def list_exchanges(call: Call) -> Answer:
    columns = choose(call, EXCHANGE_COLUMNS, ("name", "type"))
    call.announce(f"Listing exchanges for vhost {call.vhost} ...")
    return fill(columns, in_vhost(call, "exchanges", columns=fields_of(columns)))


def list_bindings(call: Call) -> Answer:
    columns = choose(call, BINDING_COLUMNS, BINDING_DEFAULT)
    call.announce(f"Listing bindings for vhost {call.vhost}...")
    return fill(columns, in_vhost(call, "bindings", columns=fields_of(columns)))


def list_consumers(call: Call) -> Answer:
    columns = choose(call, CONSUMER_COLUMNS, CONSUMER_DEFAULT)
    call.announce(f"Listing consumers in vhost {call.vhost} ...")
    return fill(columns, in_vhost(call, "consumers", columns=fields_of(columns)))


def list_connections(call: Call) -> Answer:
    columns = choose(call, CONNECTION_COLUMNS, ("user", "peer_host", "peer_port", "state"))
    call.announce("Listing connections ...")
    return fill(columns, call.api.get("connections", columns=fields_of(columns)))


def list_channels(call: Call) -> Answer:
    default = ("pid", "user", "consumer_count", "messages_unacknowledged")
    columns = choose(call, CHANNEL_COLUMNS, default)
    call.announce("Listing channels ...")
    return fill(columns, call.api.get("channels", columns=fields_of(columns)))


VERBS: Final = (
    Verb(
        name="list_exchanges",
        family=Family.MONITORING,
        summary="Lists exchanges",
        run=list_exchanges,
        arguments=(COLUMN_ARGUMENT,),
        is_scoped=True,
        is_table=True,
        columns=tuple(EXCHANGE_COLUMNS),
    ),
    Verb(
        name="list_bindings",
        family=Family.MONITORING,
        summary="Lists all bindings on a vhost",
        run=list_bindings,
        arguments=(COLUMN_ARGUMENT,),
        is_scoped=True,
        is_table=True,
        columns=tuple(BINDING_COLUMNS),
    ),
    Verb(
        name="list_consumers",
        family=Family.MONITORING,
        summary="Lists all consumers for a vhost",
        run=list_consumers,
        arguments=(COLUMN_ARGUMENT,),
        is_scoped=True,
        is_table=True,
        columns=tuple(CONSUMER_COLUMNS),
    ),
    Verb(
        name="list_connections",
        family=Family.MONITORING,
        summary="Lists AMQP 0.9.1 connections",
        run=list_connections,
        arguments=(COLUMN_ARGUMENT,),
        is_table=True,
        columns=tuple(CONNECTION_COLUMNS),
    ),
    Verb(
        name="list_channels",
        family=Family.MONITORING,
        summary="Lists all channels",
        run=list_channels,
        arguments=(COLUMN_ARGUMENT,),
        is_table=True,
        columns=tuple(CHANNEL_COLUMNS),
    ),
)
