"""/api/exchanges: exchanges, and their bindings as seen from them."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from starlette.responses import Response

from warren.management.arguments import table_from_json
from warren.management.call import Call
from warren.management.caller import VHOST_USERS, visible_vhosts
from warren.management.cluster.sums import FIGURES, Figures, add, figures_elsewhere
from warren.management.declaring import declare_exchange, delete_exchange
from warren.management.errors import no_such_object
from warren.management.json_types import JsonObject
from warren.management.listing import Listing
from warren.management.resource import Resource
from warren.management.views.exchanges import show_exchange
from warren.model.records import ExchangeRecord
from warren.routing.exchange import Exchange

_KEYS: Final = {
    name: attrgetter(f"record.{name}")
    for name in ("auto_delete", "durable", "internal", "name", "type", "vhost")
}


def _find(call: Call) -> Exchange | None:
    vhost = call.find_vhost()
    return None if vhost is None else vhost.exchanges.get(call.exchange_name())


def _figures(exchanges: Iterable[Exchange], call: Call) -> Figures:
    """Of those that anything was published to at this node."""
    shown = {}
    for exchange in exchanges:
        record = exchange.record
        if figures := call.node.statistics.of_exchange(record.vhost, record.name):
            shown[_identity(exchange)] = {"message_stats": figures}
    return shown


def _identity(exchange: Exchange) -> str:
    return f"{exchange.record.vhost}\0{exchange.record.name}"


async def _list(call: Call) -> Response | Figures:
    exchanges = [x for vhost in visible_vhosts(call) for x in vhost.exchanges.values()]
    if call.part == FIGURES:
        return _figures(exchanges, call)
    elsewhere = await figures_elsewhere(call)
    return await Listing(
        exchanges,
        lambda exchange: add(
            show_exchange(exchange, call.node), elsewhere.get(_identity(exchange), {})
        ),
        attrgetter("record.vhost", "record.name"),
        _KEYS,
    ).respond(call)


async def _show(call: Call) -> JsonObject:
    exchange = _find(call)
    if exchange is None:
        raise no_such_object()
    if call.part == FIGURES:
        return _figures([exchange], call)
    elsewhere = (await figures_elsewhere(call)).get(_identity(exchange), {})
    # Who publishes into it and where it leads, by channel, is what RabbitMQ's detailed rates are.
    return {**add(show_exchange(exchange, call.node), elsewhere), "incoming": [], "outgoing": []}


async def _put(call: Call) -> None:
    vhost, body = call.vhost, await call.body()
    record = ExchangeRecord(
        vhost.name,
        call.exchange_name(),
        body.text("type", "direct"),
        durable=body.boolean("durable", default=False),
        auto_delete=body.boolean("auto_delete", default=False),
        internal=body.boolean("internal", default=False),
        arguments=table_from_json(body.object("arguments")),
        created_by=call.user.name,
    )
    await declare_exchange(call, record)


async def _delete(call: Call) -> None:
    await delete_exchange(call, call.exchange_name(), call.flag("if-unused"))


RESOURCES: Final = (
    Resource(path="/exchanges", rule=VHOST_USERS, get=_list),
    Resource(
        path="/exchanges/{vhost}",
        rule=VHOST_USERS,
        exists=lambda call: call.find_vhost() is not None,
        get=_list,
    ),
    Resource(
        path="/exchanges/{vhost}/{exchange}",
        rule=VHOST_USERS,
        exists=lambda call: _find(call) is not None,
        get=_show,
        put=_put,
        delete=_delete,
    ),
)
