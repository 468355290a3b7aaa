"""The cluster as a whole: its name, what it can do, and what tools expect to be there."""

from __future__ import annotations

from typing import Final

from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS, ANY_TAG, EVERYBODY
from warren.management.errors import bad_request, not_authorised
from warren.management.json_types import JsonObject
from warren.management.resource import Resource
from warren.management.views.overview import CLUSTER_NAME, cluster_name

_BROKER: Final = "rabbit"
_AGENT: Final = "rabbitmq_management_agent"

# What RabbitMQ 3.10 made switchable, all of which is there from the start.
_FEATURE_FLAGS: Final = (
    (
        "classic_mirrored_queue_version", "Support setting version for classic mirrored queues",
        _BROKER,
    ),
    ("drop_unroutable_metric", "Count unroutable publishes to be dropped in stats", _AGENT),
    ("empty_basic_get_metric", "Count AMQP `basic.get` on empty queues in stats", _AGENT),
    (
        "implicit_default_bindings",
        "Default bindings are now implicit, instead of being stored in the database", _BROKER,
    ),
    ("maintenance_mode_status", "Maintenance mode status", _BROKER),
    ("quorum_queue", "Support queues of type `quorum`", _BROKER),
    ("stream_queue", "Support queues of type `stream`", _BROKER),
    ("user_limits", "Configure connection and channel limits for a user", _BROKER),
    ("virtual_host_metadata", "Virtual host metadata (description, tags, etc)", _BROKER),
)  # fmt: skip


async def _show_name(call: Call) -> JsonObject:
    return {"name": cluster_name(call.node)}


async def _put_name(call: Call) -> None:
    if not call.caller.is_administrator:
        raise not_authorised("Not administrator user")
    (name,) = (await call.body()).texts("name")
    await call.broker.parameters.set_global(CLUSTER_NAME, name)


async def _extensions(_call: Call) -> list[JsonObject]:
    return [{"javascript": "dispatcher.js"}]


async def _auth(_call: Call) -> JsonObject:
    return {"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}


async def _feature_flags(_call: Call) -> list[JsonObject]:
    return [
        {
            "name": name,
            "desc": description,
            "doc_url": "",
            "state": "enabled",
            "stability": "stable",
            "provided_by": provider,
        }
        for name, description, provider in _FEATURE_FLAGS
    ]


async def _enable_feature_flag(call: Call) -> None:
    if call.parts["name"] not in {name for name, *_ in _FEATURE_FLAGS}:
        raise bad_request("unsupported")


async def _nothing_to_do(_call: Call) -> None:
    """Figures that start anew help nobody."""


RESOURCES: Final = (
    Resource(path="/cluster-name", rule=ANY_TAG, get=_show_name, put=_put_name),
    Resource(path="/extensions", rule=ANY_TAG, get=_extensions),
    Resource(path="/auth", rule=EVERYBODY, get=_auth),
    Resource(path="/feature-flags", rule=ADMINISTRATORS, get=_feature_flags),
    Resource(path="/feature-flags/{name}/enable", rule=ADMINISTRATORS, put=_enable_feature_flag),
    Resource(path="/reset", rule=ADMINISTRATORS, delete=_nothing_to_do),
    Resource(
        path="/reset/{node}",
        rule=ADMINISTRATORS,
        exists=lambda call: call.parts["node"] in (call.node.config.name, *call.peers.names),
        delete=_nothing_to_do,
    ),
)
