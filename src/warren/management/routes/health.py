"""/api/health/checks and its older kin: whether all is well, for load balancers and operators.

A check that fails answers 503 and says why. Those about what only a cluster can have answer, for a
node that is alone, as a single node of RabbitMQ's does.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from starlette.responses import Response

from warren.flow.alarms import Alarm
from warren.management.call import Call
from warren.management.caller import ANY_TAG, VHOST_USERS
from warren.management.errors import JSON_TYPE, bad_request
from warren.management.json_types import Json, JsonObject, encode
from warren.management.resource import Handler, Resource
from warren.management.routes.overview import (
    is_down,
    known_node,
    node_in_path,
    node_in_query,
    queried_node_runs,
)
from warren.management.routes.publishing import acting
from warren.management.views.certificates import DAYS_MAX, DAYS_OF_UNIT, expiring_certificates
from warren.management.views.copies import led_without_synchronised
from warren.management.views.overview import show_listeners
from warren.model.limits import SHORTSTR_BYTES_MAX
from warren.model.records import QueueRecord
from warren.policy.quorum_queues import is_quorum
from warren.queues.settings import queue_type_of
from warren.server.quorum_members import critical_on
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import Properties, encode_properties
from warren.wire.route_key import make_route_key

ALIVENESS_QUEUE: Final = "aliveness-test"
OK: Final = {"status": "ok"}
_ALONE: Final = {"status": "ok", "reason": "single node cluster"}
_WOULD_LOSE_QUORUM: Final = (
    "There are quorum queues that would lose their quorum if the target node is shut down"
)
_NOT_SYNCHRONISED: Final = "There are classic mirrored queues without online synchronised mirrors"
# RabbitMQ's names of protocols, and what else it takes for them.
_PROTOCOLS: Final = {
    "amqp091": "amqp", "amqp": "amqp", "amqp10": "amqp", "amqps": "amqp/ssl",
    "amqp091s": "amqp/ssl", "amqp/ssl": "amqp/ssl", "https": "https", "mqtts": "mqtt/ssl",
    "stomps": "stomp/ssl",
}  # fmt: skip


def failed(reason: str, **facts: Json) -> Response:
    body = {"status": "failed", "reason": reason, **facts}
    return Response(encode(body), 503, media_type=JSON_TYPE)


async def _alarms(call: Call) -> JsonObject | Response:
    alarms = call.node.alarms.board.alarms
    return _alarmed(alarms, "There are alarms in effect in the cluster")


async def _local_alarms(call: Call) -> JsonObject | Response:
    name = call.node.config.name
    alarms = [alarm for alarm in call.node.alarms.board.alarms if alarm.node == name]
    return _alarmed(alarms, "There are alarms in effect on the node")


def _alarmed(alarms: list[Alarm], reason: str) -> JsonObject | Response:
    if not alarms:
        return OK
    shown = [{"node": alarm.node, "resource": alarm.resource.value} for alarm in alarms]
    return failed(reason, alarms=shown)


async def _port_listener(call: Call) -> JsonObject | Response:
    text = call.parts["port"]
    if not (text.isascii() and text.isdigit()) or len(text) > SHORTSTR_BYTES_MAX:
        raise bad_request("Invalid port")
    port = int(text)
    ports = sorted({listener["port"] for listener in show_listeners(call.node)}, key=str)
    if port in ports:
        return {"status": "ok", "port": port}
    return failed("No active listener", missing=port, ports=ports)


async def _protocol_listener(call: Call) -> JsonObject | Response:
    asked = call.parts["protocol"]
    protocol = _PROTOCOLS.get(asked, asked)
    protocols = list(dict.fromkeys(li["protocol"] for li in show_listeners(call.node)))
    if protocol in protocols:
        return {"status": "ok", "protocol": protocol}
    return failed("No active listener", missing=protocol, protocols=protocols)


async def _certificate_expiration(call: Call) -> JsonObject | Response:
    within, unit = call.parts["within"], call.parts["unit"].lower()
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", within):
        raise bad_request("Invalid expiration value.")
    if unit not in DAYS_OF_UNIT:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    days = min(int(within) * DAYS_OF_UNIT[unit], DAYS_MAX)
    until = datetime.now(UTC) + timedelta(days=max(days, -DAYS_MAX))
    expiring = await asyncio.to_thread(expiring_certificates, call.node, until)
    return failed("Certificates expiring", expired=expiring) if expiring else OK


async def _healthy(call: Call) -> JsonObject:
    return OK


async def _not_quorum_critical(call: Call) -> JsonObject | Response:
    """Fail if a quorum queue that is whole here is whole on no other node that runs."""
    cluster = call.node.cluster
    if cluster is None or len(cluster.membership.members) == 1:
        return _ALONE
    critical = [_shown(record) for record in critical_on(cluster.view, cluster.name)]
    return failed(_WOULD_LOSE_QUORUM, queues=critical) if critical else OK


async def _not_mirror_sync_critical(call: Call) -> JsonObject | Response:
    """Whether every mirrored queue led here would have a successor that lacks nothing."""
    if not call.peers.names:
        return _ALONE
    records = [r for r in led_without_synchronised(call.node) if not is_quorum(r.arguments)]
    critical = [_shown(record) for record in records]
    return failed(_NOT_SYNCHRONISED, queues=critical) if critical else OK


def _shown(record: QueueRecord) -> JsonObject:
    return {
        "readable_name": f"queue '{record.name}' in vhost '{record.vhost}'",
        "name": record.name,
        "virtual_host": record.vhost,
        "type": queue_type_of(record.arguments).value,
    }


async def _node_health(call: Call) -> JsonObject | Response:
    if "node" in call.parts and is_down(call):
        return failed("nodedown")
    alarms = call.node.alarms.board.alarms
    if not alarms:
        return OK
    listed = ",".join(f"{alarm.resource.value}" for alarm in alarms)
    return failed(f"resource alarm(s) in effect:[{listed}]")


async def _aliveness(call: Call) -> JsonObject | Response:
    """Send a message to oneself. The queue stays: the next test is the sooner done."""
    with acting(call) as connection:
        await connection.declare_queue(ALIVENESS_QUEUE)
        properties = PropertyBlock(encode_properties(Properties()))
        route_key = make_route_key("", ALIVENESS_QUEUE)
        await connection.publish(Message(route_key, properties, b"test_message"))
        queued = await connection.get(ALIVENESS_QUEUE)
        connection.ack()
    return OK if queued is not None else failed("the message did not come back")


def check(path: str, handler: Handler) -> Resource:
    return Resource(
        path=f"/health/checks/{path}",
        rule=ANY_TAG,
        exists=queried_node_runs,
        get=handler,
        node_of=node_in_query,
    )


RESOURCES: Final = (
    check("alarms", _alarms),
    check("local-alarms", _local_alarms),
    check("port-listener/{port}", _port_listener),
    check("protocol-listener/{protocol}", _protocol_listener),
    check("certificate-expiration/{within}/{unit}", _certificate_expiration),
    check("virtual-hosts", _healthy),
    check("node-is-quorum-critical", _not_quorum_critical),
    check("node-is-mirror-sync-critical", _not_mirror_sync_critical),
    Resource(path="/healthchecks/node", rule=ANY_TAG, get=_node_health),
    Resource(
        path="/healthchecks/node/{node}",
        rule=ANY_TAG,
        exists=known_node,
        get=_node_health,
        node_of=node_in_path,
    ),
    Resource(
        path="/aliveness-test/{vhost}",
        rule=VHOST_USERS,
        exists=lambda call: call.find_vhost() is not None,
        get=_aliveness,
    ),
)
