"""Nodes in and out of a cluster, and in and out of service.

A node of Warren's belongs to the cluster whose etcd and secret it is started with: nothing has to
be told to join. So some of rabbitmqctl's verbs have nothing to do here; they are known, and say
what to do instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from warren.cli.ctl.api import NotFound, Refusal, require_node
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer
from warren.cli.ctl.losses import OPTIONS, agree, as_document, found_losses
from warren.cli.ctl.nodes import POLL_S, STARTUP_TIMEOUT_S, wait_until_ready
from warren.cli.ctl.verbs import (
    Argument,
    Contact,
    Exit,
    Failure,
    Family,
    Kind,
    Option,
    Verb,
    WrongUsage,
    error,
)


def await_online_nodes(call: Call) -> Answer:
    wanted = call.integer_argument(0)
    call.announce(f"Will wait for at least {wanted} nodes to join the cluster of {call.node} ...")
    deadline = time.monotonic() + (call.timeout_s or STARTUP_TIMEOUT_S)
    while _online_nodes(call) < wanted:
        if time.monotonic() >= deadline:
            raise Failure(
                f"Error: fewer than {wanted} nodes are online after {call.timeout_s} s",
                Exit.TEMPORARY,
            )
        time.sleep(POLL_S)
    return None


def _online_nodes(call: Call) -> int:
    known = call.api.get_or_none("warren", "cluster")
    nodes = call.api.get("nodes") if known is None else known["members"]
    return sum(bool(node["running"]) for node in nodes)


def forget_cluster_node(call: Call) -> Answer:
    name = call.arguments[0]
    if call.flag("offline"):
        call.announce(f"Removing node {name} from the cluster")
        return _forget_offline(call, name)
    require_node(call.api, call.text("node"))
    losses = found_losses(call, name)
    if call.flag("dry-run") and losses is not None:
        return as_document(losses)
    call.announce(f"Removing node {name} from the cluster")
    if losses is not None and not losses["running"]:
        agree(call, losses)
    try:
        done = call.api.delete("warren", "cluster", "members", name)
    except NotFound as absent:
        raise error(f"{call.target.url} cannot forget nodes: it is no Warren node") from absent
    except Refusal as refusal:
        raise _not_forgotten(call, refusal, name) from refusal
    return _deleted(done["queues_deleted"])


def _not_forgotten(call: Call, refusal: Refusal, name: str) -> Failure:
    if refusal.kind == "not_a_cluster_node":
        members = ", ".join(str(node["name"]) for node in call.api.get("nodes", columns="name"))
        hint = f"there is no node '{name}'; the members are: {members}"
        return Failure(f"Error:\n{{:not_a_cluster_node, '{refusal.reason}'}}", hint=hint)
    hint = f"stop it with 'warrenctl -n {name} stop', or empty it with 'warrenctl -n {name} reset'"
    return Failure(f"Error:\n{refusal.reason}", hint=hint)


def _deleted(count: int) -> Answer:
    return f"{count} queues were deleted with the node" if count else None


def _forget_offline(call: Call, name: str) -> Answer:
    # Imported here: gRPC is large, and all other verbs need none of it.
    import asyncio

    from warren.metadata.etcd_address import DEFAULT_NAMESPACE, BadEtcdAddress, parse_etcd_address
    from warren.metadata.store import MetadataError
    from warren.server.forgetting_offline import CannotForget, forget_offline, lost_offline

    store = call.text("metadata")
    if store is None:
        raise WrongUsage(
            "--offline needs --metadata etcd://HOST:PORT, where the cluster keeps what it knows "
            "of its nodes; if one of them runs, ask it without --offline"
        )
    cluster = call.text("cluster-name") or DEFAULT_NAMESPACE
    try:
        address = parse_etcd_address(store)
        lost = asyncio.run(lost_offline(address, cluster, name))
        if call.flag("dry-run"):
            return as_document(lost)
        agree(call, lost)
        asyncio.run(forget_offline(address, cluster, name))
    except BadEtcdAddress as bad:
        raise WrongUsage(f"--metadata: {bad}") from bad
    except (CannotForget, MetadataError) as refusal:
        raise Failure(f"Error:\n{refusal}") from refusal
    return None


def reset(call: Call) -> Answer:
    return _reset(call, is_forced=False)


def force_reset(call: Call) -> Answer:
    return _reset(call, is_forced=True)


def _reset(call: Call, is_forced: bool) -> Answer:
    losses = found_losses(call, call.node)
    if call.flag("dry-run") and losses is not None:
        return as_document(losses)
    if losses is not None:
        agree(call, losses)
    call.announce(f"{'Forcefully resetting' if is_forced else 'Resetting'} node {call.node} ...")
    _of_node(call, "reset", lambda path: call.api.post(*path, body={"force": is_forced}))
    if call.is_asked_itself:
        wait_until_ready(call, STARTUP_TIMEOUT_S)
        return None
    return f"Node {call.node} begins anew; '{call.verb.name}' does not wait for another node"


def drain(call: Call) -> Answer:
    call.announce(
        f"Will put node {call.node} into maintenance mode. The node will no longer serve any "
        "client traffic!"
    )
    _maintain(call, is_drained=True)
    return None


def revive(call: Call) -> Answer:
    call.announce(
        f"Will put node {call.node} back into regular operating mode. The node will again serve "
        "client traffic and will be considered for primary queue replica placement."
    )
    _maintain(call, is_drained=False)
    return None


def _maintain(call: Call, is_drained: bool) -> None:
    body = {"drained": is_drained}
    _of_node(call, "maintenance", lambda path: call.api.put(*path, body=body))


def _of_node(call: Call, what: str, ask: Callable[[tuple[str, ...]], object]) -> None:
    try:
        ask(("warren", "nodes", call.node, what))
    except NotFound as absent:
        raise error(
            f"{call.target.url} cannot do that for node {call.node}: ask the node itself"
        ) from absent


def _instead(text: str) -> Callable[[Call], Answer]:
    def explain(call: Call) -> Answer:
        raise error(text)

    return explain


_JOINING: Final = (
    "a node belongs to the cluster whose etcd, cluster_name and secret it is started with:\n\n"
    "    WARREN_CLUSTER_SECRET=... warren server --metadata etcd://HOST:PORT,...\n\n"
    "To move one to another cluster: 'warrenctl stop', 'warrenctl forget_cluster_node NODE' at "
    "another\nnode, 'warren reset --data-dir DIR', and start it with the other cluster's."
)
_APPLICATION: Final = (
    "a node is one process, there is no application in it to be stopped and started alone.\n\n"
    "    warrenctl drain      no clients, no new queues; 'warrenctl revive' takes that back\n"
    "    warrenctl stop       stops the node; start it with 'warren server'"
)
_FORCE_BOOT: Final = (
    "nodes start in any order and wait for nobody: what they have to know is in etcd"
)
_MEMBER: Final = Argument("existing_cluster_member_node", "any node of the cluster")

VERBS: Final = (
    Verb(
        name="await_online_nodes",
        family=Family.CLUSTER,
        summary="Waits for <count> nodes to join the cluster",
        run=await_online_nodes,
        arguments=(Argument("count", "how many members must be up"),),
        timeout_s=STARTUP_TIMEOUT_S,
    ),
    Verb(
        name="forget_cluster_node",
        family=Family.CLUSTER,
        summary="Removes a node that is not running from the cluster, with its queues",
        run=forget_cluster_node,
        contact=Contact.OWN,
        arguments=(Argument("existing_cluster_member_node", "the node to remove"),),
        options=(
            *OPTIONS,
            Option("offline", "of a cluster that has no node running"),
            Option("metadata", "with --offline: where etcd is", Kind.TEXT, metavar="etcd://..."),
            Option("cluster-name", "with --offline: cluster_name of its nodes", Kind.TEXT),
        ),
        timeout_s=STARTUP_TIMEOUT_S,
    ),
    Verb(
        name="reset",
        family=Family.CLUSTER,
        summary="Empties the node, deletes its queues, and lets it join again as a new one",
        run=reset,
        options=OPTIONS,
        timeout_s=STARTUP_TIMEOUT_S,
    ),
    Verb(
        name="force_reset",
        family=Family.CLUSTER,
        summary="As reset, also if the cluster cannot be told",
        run=force_reset,
        options=OPTIONS,
        timeout_s=STARTUP_TIMEOUT_S,
    ),
    Verb(
        name="drain",
        family=Family.CLUSTER,
        summary="Puts the node into maintenance mode: no clients, no new queues",
        run=drain,
    ),
    Verb(
        name="revive",
        family=Family.CLUSTER,
        summary="Puts the node back into service after a drain",
        run=revive,
    ),
    Verb(
        name="join_cluster",
        family=Family.CLUSTER,
        summary="Says how a node joins a cluster",
        run=_instead(_JOINING),
        contact=Contact.NONE,
        arguments=(_MEMBER,),
        options=(Option("disc", "as rabbitmqctl has it"), Option("ram", "as rabbitmqctl has it")),
    ),
    Verb(
        name="force_boot",
        family=Family.CLUSTER,
        summary="Not needed: nodes start in any order",
        run=_instead(_FORCE_BOOT),
        contact=Contact.NONE,
    ),
    Verb(
        name="stop_app",
        family=Family.NODES,
        summary="Says what to do instead: drain, or stop",
        run=_instead(_APPLICATION),
        contact=Contact.NONE,
    ),
    Verb(
        name="start_app",
        family=Family.NODES,
        summary="Says what to do instead: revive, or start the node",
        run=_instead(_APPLICATION),
        contact=Contact.NONE,
    ),
)
