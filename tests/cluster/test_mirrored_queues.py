"""What a mirrored queue has when its home is killed (cases 3): one death shows all.

Each case prepares queues whose home is the first node; that one is killed; and each is looked at
through the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from acceptance.raw_client import RawClient
from cluster.conftest import OpenOn
from cluster.mirrored import (
    CANARY,
    MirroredCluster,
    drain,
    numbered,
    publish_all,
    refusal_of,
    running_mirrored,
)
from cluster.nodes import body_of, count_of, eventually
from warren.cluster.gathering import LATER_MS


class Prepared:
    """The cluster, and what clients of nodes that go on hold when the first one dies."""

    def __init__(self, cluster: MirroredCluster) -> None:
        self.cluster = cluster
        self.first = cluster.nodes[0].channel()
        self.second = cluster.nodes[1].channel()
        self.second.confirm_delivery()
        self.third = cluster.nodes[2].channel()
        self.kept: dict[str, Any] = {}
        self.declared: dict[str, dict[str, Any]] = {}

    def declare(self, queue: str, **options: Any) -> None:
        self.declared[queue] = {"durable": True, **options}
        self.first.queue_declare(queue, **self.declared[queue])
        self.cluster.await_in_sync(queue)
        home = self.cluster.master_node_of(queue)
        assert home is self.cluster.nodes[0]


PREPARE: list[Callable[[Prepared], None]] = []


def before(prepare: Callable[[Prepared], None]) -> Callable[[Prepared], None]:
    """To be done before the first node is killed."""
    PREPARE.append(prepare)
    return prepare


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    with running_mirrored(tmp_path_factory.mktemp("mirrored")) as cluster:
        prepared = Prepared(cluster)
        for prepare in PREPARE:
            prepare(prepared)
        time.sleep(3 * LATER_MS / 1000)  # by then mirrors have been told what is gone
        cluster.nodes[0].kill()
        # A declare waits until its queue has a home again.
        for channel in (prepared.second, prepared.third):
            for queue, options in prepared.declared.items():
                channel.queue_declare(queue, **options)
        yield prepared


@before
def _publish_to_a_declared_queue(at: Prepared) -> None:
    at.first.queue_declare("mirrored-synchrony", durable=True)
    at.kept["in sync"] = at.cluster.in_sync("mirrored-synchrony")
    publish_all(at.second, "mirrored-synchrony", numbered(1))


def test_3_01_a_declared_queue_has_its_copies_and_a_confirmed_message_is_in_them(
    killed: Prepared, open_on: OpenOn
) -> None:
    assert len(killed.kept["in sync"]) == 3, "it was mirrored when declare-ok came"
    channel = open_on(killed.cluster.nodes[1])
    declared = channel.queue_declare("mirrored-synchrony", durable=True)
    assert declared.method.message_count == 1


@before
def _declare_and_delete_again_and_again(at: Prepared) -> None:
    for _ in range(20):
        at.first.queue_declare("mirrored-rapid", durable=True)
        at.first.queue_delete("mirrored-rapid")


def test_3_02_a_queue_declared_and_deleted_rapidly_leaves_nothing(
    killed: Prepared, open_on: OpenOn
) -> None:
    assert killed.cluster.group("mirrored-rapid") is None
    channel = open_on(killed.cluster.nodes[1])
    assert refusal_of(lambda: channel.queue_declare("mirrored-rapid", passive=True)) == 404
    again = open_on(killed.cluster.nodes[1])
    assert again.queue_declare("mirrored-rapid").method.message_count == 0
    again.queue_delete("mirrored-rapid")


@before
def _declare_anew(at: Prepared) -> None:
    """The second queue of a name begins with all its copies, like the first, and all are empty."""
    for body in numbered(*range(3)):
        at.first.queue_declare("mirrored-anew", durable=True)
        group = at.cluster.group("mirrored-anew")
        assert group is not None
        assert (group.view, len(group.insync)) == (1, 3)
        publish_all(at.second, "mirrored-anew", [body])
        at.first.queue_delete("mirrored-anew")
    at.declare("mirrored-anew")
    publish_all(at.second, "mirrored-anew", [b"last"])


def test_a_queue_declared_again_has_nothing_of_the_one_before(
    killed: Prepared, open_on: OpenOn
) -> None:
    reader = open_on(killed.cluster.nodes[1])
    assert drain(reader, "mirrored-anew") == [(b"last", True)]


@before
def _leave_some_ready(at: Prepared) -> None:
    at.declare("mirrored-ready")
    publish_all(at.second, "mirrored-ready", numbered(*range(10)))


def test_3_24_what_was_ready_is_said_to_be_redelivered_after_failover_and_new_ones_are_not(
    killed: Prepared, open_on: OpenOn
) -> None:
    publish_all(killed.second, "mirrored-ready", [b"new"])
    reader = open_on(killed.cluster.nodes[1])
    old = [(body, True) for body in numbered(*range(10))]
    assert drain(reader, "mirrored-ready") == [*old, (b"new", False)]


@before
def _leave_some_unacknowledged(at: Prepared) -> None:
    at.declare("mirrored-unacked")
    publish_all(at.second, "mirrored-unacked", numbered(*range(10)))
    at.kept["unacked"] = [at.third.basic_get("mirrored-unacked")[0] for _ in range(5)]


def test_3_25_and_3_26_unacknowledged_messages_return_to_their_places_and_old_tags_remove_nothing(
    killed: Prepared, open_on: OpenOn
) -> None:
    for method in killed.kept["unacked"]:
        killed.third.basic_ack(method.delivery_tag)
    reader = open_on(killed.cluster.nodes[2])
    eventually(lambda: count_of(reader, "mirrored-unacked") == 10, "all are ready again")
    assert [body for body, _ in drain(reader, "mirrored-unacked")] == numbered(*range(10))
    assert killed.third.is_open


@before
def _use_a_queue_from_elsewhere(at: Prepared) -> None:
    at.declare("mirrored-elsewhere")
    publish_all(at.second, "mirrored-elsewhere", numbered(*range(8)))
    second = at.cluster.nodes[1].channel()
    second.basic_qos(prefetch_count=1)
    tags = [second.basic_get("mirrored-elsewhere")[0].delivery_tag for _ in range(4)]
    second.basic_ack(tags[0])
    second.basic_nack(tags[1], requeue=True)
    second.basic_nack(tags[2], requeue=False)
    eventually(lambda: count_of(at.third, "mirrored-elsewhere") == 5, "the second is back")
    assert body_of(at.third, "mirrored-elsewhere") == b"1"
    second.connection.close()
    eventually(lambda: count_of(at.first, "mirrored-elsewhere") == 5, "the unacknowledged is back")


def test_3_34_mirrors_follow_what_clients_do_through_nodes_that_are_not_the_home(
    killed: Prepared, open_on: OpenOn
) -> None:
    reader = open_on(killed.cluster.nodes[1])
    assert [body for body, _ in drain(reader, "mirrored-elsewhere")] == numbered(3, 4, 5, 6, 7)


@before
def _purge_and_delete(at: Prepared) -> None:
    at.declare("mirrored-purged")
    publish_all(at.second, "mirrored-purged", numbered(*range(10)))
    at.third.queue_purge("mirrored-purged")
    publish_all(at.second, "mirrored-purged", [b"after"])
    at.declare("mirrored-deleted")
    publish_all(at.second, "mirrored-deleted", numbered(*range(10)))
    at.third.queue_delete("mirrored-deleted")
    del at.declared["mirrored-deleted"]


def test_3_35_what_was_purged_is_gone_and_so_are_the_copies_of_what_was_deleted(
    killed: Prepared, open_on: OpenOn
) -> None:
    reader = open_on(killed.cluster.nodes[1])
    assert [body for body, _ in drain(reader, "mirrored-purged")] == [b"after"]
    assert killed.cluster.group("mirrored-deleted") is None
    assert reader.queue_declare("mirrored-deleted", durable=True).method.message_count == 0


@before
def _publish_with_priorities(at: Prepared) -> None:
    at.declare("mirrored-priority", arguments={"x-max-priority": 3})
    for priority in (1, 2, 3) * 3:
        publish_all(at.second, "mirrored-priority", numbered(priority), priority=priority)


def test_3_36_priorities_are_kept(killed: Prepared, open_on: OpenOn) -> None:
    reader = open_on(killed.cluster.nodes[1])
    there = [body for body, _ in drain(reader, "mirrored-priority")]
    assert there == numbered(3, 3, 3, 2, 2, 2, 1, 1, 1)


@before
def _declare_an_exclusive_queue(at: Prepared) -> None:
    at.first.queue_declare("mirrored-exclusive", exclusive=True)
    assert at.cluster.group("mirrored-exclusive") is None


def test_3_13_an_exclusive_queue_is_not_mirrored_and_goes_with_its_node(
    killed: Prepared, open_on: OpenOn
) -> None:
    killed.second.queue_declare(CANARY, durable=True)
    channel = open_on(killed.cluster.nodes[1])
    assert refusal_of(lambda: channel.queue_declare("mirrored-exclusive", passive=True)) == 404


@before
def _consume_at_the_home_of_an_auto_delete_queue(at: Prepared) -> None:
    at.declare("mirrored-auto-delete", auto_delete=True)
    at.first.basic_consume("mirrored-auto-delete", lambda *_: None)


def test_3_28_an_auto_delete_queue_outlives_consumers_that_died_with_its_home(
    killed: Prepared, open_on: OpenOn
) -> None:
    channel = open_on(killed.cluster.nodes[1])
    assert channel.queue_declare("mirrored-auto-delete", passive=True).method.consumer_count == 0
    tag = channel.basic_consume("mirrored-auto-delete", lambda *_: None)
    channel.basic_cancel(tag)

    def is_gone() -> bool:
        other = open_on(killed.cluster.nodes[1])
        return refusal_of(lambda: other.queue_declare("mirrored-auto-delete", passive=True)) == 404

    eventually(is_gone, "it goes with a consumer that came after")


@before
def _publish_transient_messages(at: Prepared) -> None:
    at.declare("mirrored-transient", durable=False)
    publish_all(at.second, "mirrored-transient", numbered(*range(3)), delivery_mode=1)
    at.declare("mirrored-durable")
    publish_all(at.second, "mirrored-durable", numbered(*range(3)), delivery_mode=1)


@pytest.mark.parametrize("queue", ["mirrored-transient", "mirrored-durable"])
def test_6_11_what_is_not_durable_survives_in_the_copies(
    queue: str, killed: Prepared, open_on: OpenOn
) -> None:
    reader = open_on(killed.cluster.nodes[2])
    assert [body for body, _ in drain(reader, queue)] == numbered(*range(3))


@before
def _fill_a_queue_with_a_limit(at: Prepared) -> None:
    limit = {"x-max-length": 3}
    at.declare("mirrored-limited", arguments=limit)
    publish_all(at.second, "mirrored-limited", numbered(*range(3)))
    for _ in range(2):
        at.third.basic_get("mirrored-limited")
    publish_all(at.second, "mirrored-limited", numbered(3, 4))


def test_3_30_a_length_limit_is_kept_by_the_new_master_and_the_third_copy_lives_on(
    killed: Prepared, open_on: OpenOn
) -> None:
    reader = open_on(killed.cluster.nodes[1])
    publish_all(killed.second, "mirrored-limited", numbered(5))
    eventually(lambda: count_of(reader, "mirrored-limited") == 3, "it is trimmed")
    assert len(killed.cluster.in_sync("mirrored-limited")) == 2
    assert [body for body, _ in drain(reader, "mirrored-limited")] == numbered(3, 4, 5)


@before
def _prepare_transactions(at: Prepared) -> None:
    at.declare("mirrored-tx")
    client = RawClient(at.cluster.nodes[1].address).open()
    client.call(1, "tx.select")
    at.kept["tx"] = client


def test_3_27_a_transaction_is_committed_through_a_failover(
    killed: Prepared, open_on: OpenOn
) -> None:
    """Whether its publishes found the old master or not, commit-ok means that they are there."""
    client: RawClient = killed.kept["tx"]
    for i in range(100):
        client.publish(1, b"%d" % i, routing_key="mirrored-tx")
    client.call(1, "tx.commit")
    client.drop()
    reader = open_on(killed.cluster.nodes[2])
    assert [body for body, _ in drain(reader, "mirrored-tx")] == numbered(*range(100))
