"""What is in the queues when the broker comes back, after a clean stop and after SIGKILL.

Numbers are those of the test lists of the specification: S for storage, T for the protocol.
"""

from __future__ import annotations

import pytest

from acceptance.actions import eventually
from broker_process import BrokerProcess
from durability.mail import (
    PERSISTENT_BLOCK,
    Confirms,
    acknowledge,
    bodies,
    client_of,
    declare,
    declare_in,
    flags,
    look,
    look_once,
    mixed,
    numbered,
    ready,
    requeue_all,
    send,
)
from durability.under_test import Restart, clean, crash, either_way


def test_all_confirmed_messages_survive_a_kill(mortal: BrokerProcess) -> None:
    """S6: ten thousand of mixed sizes are all there, in order, and all marked redelivered."""
    declare_in(mortal, "mixed")
    sent = mixed(10_000)
    send(mortal, sent, "mixed")
    crash(mortal)
    found = look_once(mortal, "mixed")
    assert bodies(found) == sent
    assert all(flags(found))


def test_a_clean_restart_keeps_order_and_flags(mortal: BrokerProcess) -> None:
    """S7: what was never delivered is not marked redelivered; what was delivered is."""
    declare_in(mortal, "orderly")
    sent = mixed(300)
    send(mortal, sent, "orderly")
    with client_of(mortal) as client:
        look(client, "orderly", count=7)
    mortal.restart()
    found = look_once(mortal, "orderly")
    assert bodies(found) == sent
    assert flags(found) == [True] * 7 + [False] * 293


def test_after_a_crash_flags_stay_through_a_clean_restart(mortal: BrokerProcess) -> None:
    """S7: once marked, always marked, and what came since is not."""
    declare_in(mortal, "marked")
    send(mortal, [b"before"], "marked")
    crash(mortal)
    send(mortal, [b"after"], "marked")
    mortal.restart()
    found = look_once(mortal, "marked")
    assert [(mail.body, mail.redelivered) for mail in found] == [
        (b"before", True),
        (b"after", False),
    ]


@either_way
def test_only_persistent_messages_survive(mortal: BrokerProcess, restart: Restart) -> None:
    """S8: in one durable queue, small and large, the transient ones are gone."""
    declare_in(mortal, "both")
    for number in range(10):
        size = 10_000 if number % 2 else 100
        send(mortal, [b"%d kept " % number * (size // 7)], "both")
        send(mortal, [b"%d gone " % number * (size // 7)], "both", delivery_mode=1)
    restart(mortal)
    found = bodies(look_once(mortal, "both"))
    assert [body[:6] for body in found] == [b"%d kept" % n for n in range(10)]


@either_way
def test_a_transient_queue_is_gone_with_its_messages(
    mortal: BrokerProcess, restart: Restart
) -> None:
    """T174: persistent messages do not make a transient queue durable."""
    with client_of(mortal) as client:
        client.call(1, "queue.declare", queue="brief")
        send(mortal, [b"x", b"y" * 10_000], "brief")
        assert ready(client, "brief") == 2
    restart(mortal)
    with client_of(mortal) as client:
        assert declare(client, "brief") == 0


@either_way
def test_an_exclusive_queue_is_gone_with_its_messages(
    mortal: BrokerProcess, restart: Restart
) -> None:
    """T175: even if it was declared durable, and nothing is left for its next owner."""
    with client_of(mortal) as client:
        client.call(1, "queue.declare", queue="mine", durable=True, exclusive=True)
        confirms = Confirms(client)
        for body in numbered(3) + numbered(3, size=10_000):
            confirms.publish(body, PERSISTENT_BLOCK, routing_key="mine")
        confirms.wait()
        restart(mortal)
    with client_of(mortal) as client:
        assert declare(client, "mine") == 0


@either_way
def test_routing_works_again_for_persistent_messages(
    mortal: BrokerProcess, restart: Restart
) -> None:
    """T174: durable queue, exchange, binding and message are there, and work together."""
    with client_of(mortal) as client:
        declare(client, "bound")
        client.call(1, "exchange.declare", exchange="routes", type="topic", durable=True)
        client.call(1, "queue.bind", queue="bound", exchange="routes", routing_key="a.#")
    send(mortal, [b"before"], "a.b", exchange="routes", headers={"kept": "yes"}, priority=3)
    restart(mortal)
    send(mortal, [b"after"], "a.c", exchange="routes")
    found = look_once(mortal, "bound")
    assert bodies(found) == [b"before", b"after"]
    assert found[0].properties["headers"]["kept"].value == b"yes"
    assert (found[0].properties["priority"], found[0].properties["delivery_mode"]) == (3, 2)


@either_way
def test_priorities_are_kept(mortal: BrokerProcess, restart: Restart) -> None:
    """3-37."""
    declare_in(mortal, "ranked", **{"x-max-priority": 3})
    for body in (b"1", b"2", b"3") * 3:
        send(mortal, [body], "ranked", priority=int(body))
    restart(mortal)
    assert bodies(look_once(mortal, "ranked")) == [b"3"] * 3 + [b"2"] * 3 + [b"1"] * 3


@either_way
def test_unacknowledged_messages_are_ready_again(mortal: BrokerProcess, restart: Restart) -> None:
    """S7, S6: in their old places, marked redelivered; acknowledged ones do not come back.

    An acknowledgement is not confirmed to anyone, so after a crash the last ones may be undone;
    a message published and confirmed afterwards shows that they are on the disk.
    """
    declare_in(mortal, "held")
    send(mortal, numbered(10), "held")
    with client_of(mortal) as client:
        mails = look(client, "held")
        for mail in mails[::2]:
            acknowledge(client, mail)
        client.call(1, "channel.close", reply_code=200)
        send(mortal, [b"afterwards"], "held")
        restart(mortal)
    found = look_once(mortal, "held")
    assert bodies(found) == [*numbered(10)[1::2], b"afterwards"]
    assert flags(found) == [True] * 5 + [restart is crash]


def test_purge_leaves_unacknowledged_messages(mortal: BrokerProcess) -> None:
    """S11: purge tells how many were ready; the others can still be acknowledged or return."""
    declare_in(mortal, "purged")
    sent = mixed(40)
    send(mortal, sent, "purged")
    with client_of(mortal) as client:
        held = look(client, "purged", count=10)
        assert client.call(1, "queue.purge", queue="purged").message_count == 30
        for mail in held[:4]:
            acknowledge(client, mail)
        assert ready(client, "purged") == 0
    with client_of(mortal) as client:
        eventually(lambda: ready(client, "purged") == 6)
    mortal.restart()
    found = look_once(mortal, "purged")
    assert bodies(found) == sent[4:10]
    assert all(flags(found))


@either_way
def test_a_purge_is_not_undone(mortal: BrokerProcess, restart: Restart) -> None:
    """S11: after a confirm that came later, no purged message comes back."""
    declare_in(mortal, "purged")
    send(mortal, mixed(3000), "purged")
    with client_of(mortal) as client:
        assert client.call(1, "queue.purge", queue="purged").message_count == 3000
    send(mortal, [b"afterwards"], "purged")
    restart(mortal)
    assert bodies(look_once(mortal, "purged")) == [b"afterwards"]


@pytest.mark.parametrize("mode", ["default", "lazy"])
def test_requeued_messages_return_to_their_places(mortal: BrokerProcess, mode: str) -> None:
    """S12: before the tail, which a lazy queue has on disk alone; and so again after a restart."""
    declare_in(mortal, "requeued", **{"x-queue-mode": mode})
    sent = numbered(6000, size=500)
    send(mortal, sent, "requeued")
    with client_of(mortal) as client:
        taken = look(client, "requeued", count=3000)
        for mail in taken[1000:1500]:
            acknowledge(client, mail)
        requeue_all(client, "requeued", 5500)
    left = sent[:1000] + sent[1500:]
    found = look_once(mortal, "requeued")
    assert bodies(found) == left
    assert flags(found) == [True] * 2500 + [False] * 3000
    mortal.restart()
    assert bodies(look_once(mortal, "requeued")) == left


@either_way
def test_a_body_shared_by_two_queues_stays_for_the_second(
    mortal: BrokerProcess, restart: Restart
) -> None:
    """S27: after a restart, acknowledged in one queue, it is still there for the other."""
    large = numbered(5, size=50_000)
    with client_of(mortal) as client:
        for queue in ("one", "two"):
            declare(client, queue)
            client.call(1, "queue.bind", queue=queue, exchange="amq.fanout")
    send(mortal, large, exchange="amq.fanout")
    restart(mortal)
    with client_of(mortal) as client:
        mails = look(client, "one")
        assert bodies(mails) == large
        acknowledge(client, mails[-1], multiple=True)
        assert ready(client, "one") == 0
    send(mortal, [b"afterwards"], "one")
    restart(mortal)
    assert bodies(look_once(mortal, "one")) == [b"afterwards"]
    assert bodies(look_once(mortal, "two")) == large
    restart(mortal)
    assert bodies(look_once(mortal, "two")) == large


@either_way
def test_a_deleted_queue_stays_deleted(mortal: BrokerProcess, restart: Restart) -> None:
    """S28: one of the same name begins empty, before and after a restart."""
    declare_in(mortal, "doomed")
    send(mortal, mixed(2000), "doomed")
    with client_of(mortal) as client:
        assert client.call(1, "queue.delete", queue="doomed").message_count == 2000
        assert declare(client, "doomed") == 0
    send(mortal, [b"new"], "doomed")
    restart(mortal)
    assert bodies(look_once(mortal, "doomed")) == [b"new"]


def test_order_is_kept_over_many_restarts(mortal: BrokerProcess) -> None:
    """S29: what comes after a restart goes behind what was there, however often."""
    declare_in(mortal, "grows")
    sent: list[bytes] = []
    for number, restart in enumerate([crash, clean, crash, crash, clean]):
        batch = numbered(500, start=number * 500)
        send(mortal, batch, "grows")
        sent += batch
        with client_of(mortal) as client:
            acknowledge(client, look(client, "grows", count=50)[-1], multiple=True)
            assert ready(client, "grows") == len(sent) - 50
        sent = sent[50:]
        send(mortal, [b"%08d" % number], "grows")
        sent.append(b"%08d" % number)
        restart(mortal)
        assert bodies(look_once(mortal, "grows")) == sent


def test_a_transaction_survives_a_kill(mortal: BrokerProcess) -> None:
    """What tx.commit-ok answered for is on the disk; what was not committed is not there."""
    declare_in(mortal, "committed")
    with client_of(mortal) as client:
        client.call(1, "tx.select")
        for body in numbered(20):
            client.publish(1, body, PERSISTENT_BLOCK, routing_key="committed")
        client.call(1, "tx.commit")
        client.publish(1, b"not committed", PERSISTENT_BLOCK, routing_key="committed")
        client.call(1, "basic.qos", prefetch_count=1)
        crash(mortal)
    assert bodies(look_once(mortal, "committed")) == numbered(20)
