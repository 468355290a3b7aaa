"""/api/rebalance/queues, and what `rebalance` of rabbitmq-queues does: /api/warren/rebalance.

The node that is asked asks all others what they lead, makes a plan, and tells each what to move.
RabbitMQ's resource does not wait for the end and says nothing of it; ours does.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from warren.cluster.events import RelocationWanted
from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS
from warren.management.cluster.forwarding import question_of
from warren.management.cluster.peers import PeerSilent
from warren.management.cluster.sums import answers_of_all
from warren.management.errors import Refusal, bad_request
from warren.management.json_types import JsonObject
from warren.management.resource import Resource
from warren.model.regular_expressions import InvalidPattern, require_pattern
from warren.policy.rebalancing import MasterSeen, Move, plan_moves
from warren.server.rebalancing import InProgress, Rebalancing, masters_seen

if TYPE_CHECKING:
    # Which loads etcd's client: 20 MiB that a node without a cluster has no use for.
    from warren.server.cluster import Cluster

_SEEN: Final = "seen"
_MOVE: Final = "move"
_TYPES: Final = ("all", "classic", "quorum")


async def _start(call: Call) -> JsonObject | None:
    """Done in the background; one that is under way already is as good."""
    cluster = call.node.cluster
    if call.part:
        return await _answer_peer(call)
    if cluster is not None:
        rebalancing = Rebalancing(cluster)
        try:
            moves = await _begin(call, cluster, rebalancing)
        except InProgress:
            return None
        call.node.context.spawn(rebalancing.finish(moves))
    return None


async def _rebalance(call: Call) -> JsonObject | None:
    cluster = call.node.cluster
    if call.part:
        return await _answer_peer(call)
    if cluster is None:
        none = {call.node.config.name: 0}
        return {"masters": none, "quorum": none, "moved": 0}
    rebalancing = Rebalancing(cluster)
    try:
        moves = await _begin(call, cluster, rebalancing)
    except InProgress:
        raise Refusal(400, "rebalance_in_progress", "masters are being rebalanced") from None
    await rebalancing.finish(moves)
    classic, quorum = rebalancing.masters()
    return {"masters": classic, "quorum": quorum, "moved": len(moves)}


async def _begin(call: Call, cluster: Cluster, rebalancing: Rebalancing) -> list[Move]:
    wanted = await _filter(call)
    await rebalancing.begin()
    try:
        taking_part = cluster.nodes_taking_part
        seen = masters_seen(cluster, taking_part)
        for answer in await answers_of_all(call, _SEEN):
            seen += msgspec.convert(answer["queues"], list[MasterSeen])
        moves = plan_moves([each for each in seen if wanted(each)], taking_part)
        await _tell(call, cluster, {(each.vhost, each.queue): each.node for each in seen}, moves)
    except BaseException:
        await rebalancing.finish(())
        raise
    return moves


async def _filter(call: Call) -> Any:
    body = await call.body() if await call.raw_body() else None
    kind, vhosts, queues = "all", ".*", ".*"
    if body is not None:
        kind = str(body.get("type") or kind)
        vhosts, queues = str(body.get("vhost") or vhosts), str(body.get("queue") or queues)
    if kind not in _TYPES:
        raise bad_request(f"type {kind} is not supported. Try one of {', '.join(_TYPES)}.")
    try:
        in_vhost, named = require_pattern(vhosts), require_pattern(queues)
    except InvalidPattern as error:
        raise bad_request(f"pattern is invalid: {error.reason}") from None

    def is_wanted(master: MasterSeen) -> bool:
        is_named = in_vhost.require(master.vhost.encode()) and named.require(master.queue.encode())
        return kind in ("all", master.kind) and is_named

    return is_wanted


async def _tell(
    call: Call, cluster: Cluster, masters: dict[tuple[str, str], str], moves: list[Move]
) -> None:
    """Each node hears of what it leads; who does not answer moves nothing."""
    by_master: dict[str, list[Move]] = {}
    for move in moves:
        by_master.setdefault(masters[(move.vhost, move.queue)], []).append(move)
    _move(cluster, by_master.pop(cluster.name, []))
    question = question_of(call, _MOVE)
    for answer in await call.peers.ask_each(
        {
            master: replace(question, body=msgspec.json.encode(list(map(asdict, told))))
            for master, told in by_master.items()
        }
    ):
        try:
            await answer.whole()
        except PeerSilent:
            continue


async def _answer_peer(call: Call) -> JsonObject:
    cluster = call.node.cluster
    assert cluster is not None, "another node asks"
    if call.part == _SEEN:
        seen = masters_seen(cluster, cluster.nodes_taking_part)
        return {"queues": [asdict(each) for each in seen]}
    _move(cluster, msgspec.json.decode(await call.raw_body(), type=list[Move]))
    return {}


def _move(cluster: Cluster, moves: list[Move]) -> None:
    for move in moves:
        cluster.shell.tell(RelocationWanted((move.vhost, move.queue), move.node))


RESOURCES: Final = (
    Resource(path="/rebalance/queues", rule=ADMINISTRATORS, post=_start),
    Resource(path="/warren/rebalance", rule=ADMINISTRATORS, post=_rebalance),
)
