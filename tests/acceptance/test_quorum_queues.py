"""Quorum queues of a node that is alone, and queues whose type is a default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from acceptance.actions import eventually
from acceptance.control import Control
from acceptance.management_client import Api
from broker_process import Address, BrokerProcess
from cluster.nodes import count_of
from live_broker import connection_parameters


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker where queues are quorum queues by default."""
    broker = BrokerProcess(tmp_path_factory.mktemp("quorum"), "default_queue_type = quorum\n")
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def api_of_own(own: BrokerProcess) -> Api:
    return Api(Address("127.0.0.1", own.http_port))


def declare(api: Api, vhost: str, queue: str, **options: Any) -> str:
    """Declare a queue as if by a client, and say of which type it is."""
    api.must(api.put("queues", vhost, queue, body={"durable": True, **options}))
    return str(api.must(api.get("queues", vhost, queue))["type"])


def test_a_node_that_is_alone_says_that_a_quorum_queue_has_one_copy(
    own: BrokerProcess, api_of_own: Api
) -> None:
    declare(api_of_own, "/", "lonely", arguments={"x-queue-type": "quorum"})
    assert "quorum queue has one copy: this node is not in a cluster" in own.log()
    control = Control(f"http://127.0.0.1:{own.http_port}")
    note = "Quorum queues with one copy only (column members): lonely"
    assert control("list_queues name").err.startswith(note)
    assert control("list_queues name --quiet").err == ""
    assert control.called("rabbitmqctl")("list_queues name").err == ""
    status = control.ok("quorum_status lonely -s").rows
    assert [row[1:3] for row in status] == [["leader", "true"]]
    assert control("shrink warren@nobody").code == 0


def test_the_configured_type_is_that_of_queues_that_name_none(api_of_own: Api) -> None:
    assert declare(api_of_own, "/", "typed") == "quorum"
    assert declare(api_of_own, "/", "typed") == "quorum", "declared again"
    assert declare(api_of_own, "/", "named", arguments={"x-queue-type": "classic"}) == "classic"
    assert declare(api_of_own, "/", "brief", auto_delete=True) == "classic"
    assert declare(api_of_own, "/", "transient", durable=False) == "classic"


def test_the_type_of_the_virtual_host_goes_first(api: Api) -> None:
    api.must(api.put("vhosts", "typed", body={}))
    try:
        assert declare(api, "typed", "before") == "classic"
        api.must(api.put("vhosts", "typed", body={"defaultqueuetype": "quorum"}))
        assert declare(api, "typed", "after") == "quorum"
        assert declare(api, "typed", "before") == "classic", "it stays what it is"
        api.must(api.put("vhosts", "typed", body={"defaultqueuetype": "stream"}))
        assert declare(api, "typed", "log") == "stream"
    finally:
        api.must(api.delete("vhosts", "typed"))


@pytest.fixture
def channel_of_own(own: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = BlockingConnection(connection_parameters(own.address))
    yield connection.channel()
    connection.close()


def safe_arguments(queue: str) -> dict[str, Any]:
    return {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": f"{queue}-dead",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }


@pytest.mark.parametrize("death", ["rejected", "expired", "delivery_limit"])
def test_a_dead_letter_stays_until_the_queue_it_goes_to_has_it(
    channel_of_own: BlockingChannel, death: str
) -> None:
    """The target comes to be only when the first attempt has failed."""
    channel, queue = channel_of_own, f"dying-{death}"
    limit = {"x-delivery-limit": 0} if death == "delivery_limit" else {}
    channel.queue_declare(queue, durable=True, arguments={**safe_arguments(queue), **limit})
    expiration = "50" if death == "expired" else None
    channel.basic_publish("", queue, b"precious", BasicProperties(expiration=expiration))
    if death != "expired":
        method, _, _ = channel.basic_get(queue)
        assert method is not None
        channel.basic_nack(method.delivery_tag, requeue=death == "delivery_limit")
    channel.queue_declare(f"{queue}-dead", durable=True)
    eventually(lambda: count_of(channel, f"{queue}-dead") == 1)
    _, properties, body = channel.basic_get(f"{queue}-dead", auto_ack=True)
    assert body == b"precious"
    assert properties.headers["x-first-death-reason"] == death
    channel.queue_delete(queue, if_empty=True)


def test_at_least_once_without_its_conditions_is_at_most_once(
    own: BrokerProcess, channel_of_own: BlockingChannel
) -> None:
    arguments = {**safe_arguments("unsafe"), "x-overflow": "drop-head"}
    channel_of_own.queue_declare("unsafe", durable=True, arguments=arguments)
    assert "at-least-once needs overflow reject-publish" in own.log()
    channel_of_own.basic_publish("", "unsafe", b"gone")
    method, _, _ = channel_of_own.basic_get("unsafe")
    assert method is not None
    channel_of_own.basic_nack(method.delivery_tag, requeue=False)
    assert count_of(channel_of_own, "unsafe") == 0
