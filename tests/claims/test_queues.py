"""Queues of one node: prefetch, acknowledgements, and the mode that arguments and policies set."""

from __future__ import annotations

from acceptance.actions import channel_error, consume, drain, eventually, publish
from acceptance.control import Control
from acceptance.management_client import Api
from acceptance.raw_client import RawClient
from live_broker import Connect, ConnectRaw, Names

SUB_QUEUES = ("q1", "q2", "q3", "q4")


def test_c095_past_the_queue(connect: Connect, names: Names, api: Api) -> None:
    """If the queue is empty and a consumer waits, a message is delivered past the queue."""
    channel, queue = connect().channel(), names("q")
    channel.queue_declare(queue, durable=True)
    inbox = consume(channel, queue)
    publish(connect().channel(), queue, b"m", delivery_mode=2)
    inbox.await_count(1)
    shown = api.must(api.get("queues", "/", queue))
    assert (shown["messages_ready"], shown["messages_unacknowledged"]) == (0, 1)
    assert [shown["backing_queue_status"][part] for part in SUB_QUEUES] == [0, 0, 0, 0]


def test_c096_prefetch(connect: Connect, names: Names, api: Api) -> None:
    """A consumer holds at most prefetch_count messages that it has not acknowledged."""
    channel, queue = connect().channel(), names("q")
    channel.queue_declare(queue)
    publish(channel, queue, *(b"%d" % number for number in range(26)))
    channel.basic_qos(prefetch_count=10)
    consume(channel, queue).await_count(10)

    def counts() -> tuple[int, int]:
        shown = api.must(api.get("queues", "/", queue))
        return shown["messages_unacknowledged"], shown["messages_ready"]

    eventually(lambda: counts() == (10, 16))


def test_c097_multiple(connect: Connect, names: Names, api: Api) -> None:
    """One acknowledgement with `multiple` settles all deliveries up to its tag."""
    channel, queue = connect().channel(), names("q")
    channel.queue_declare(queue)
    publish(channel, queue, *(b"%d" % number for number in range(5)))
    inbox = consume(channel, queue)
    inbox.await_count(5)

    def unacknowledged() -> int:
        return int(api.must(api.get("queues", "/", queue))["messages_unacknowledged"])

    channel.basic_ack(inbox.messages[1].method.delivery_tag, multiple=True)
    eventually(lambda: unacknowledged() == 3)
    channel.basic_ack(0, multiple=True)
    eventually(lambda: unacknowledged() == 0)


def test_c101_mode_by_argument(connect: Connect, names: Names, api: Api) -> None:
    """The argument x-queue-mode is `default` or `lazy`."""
    for mode in ("default", "lazy"):
        queue = names(mode)
        arguments = {"x-queue-mode": mode}
        connect().channel().queue_declare(queue, durable=False, arguments=arguments)
        assert api.must(api.get("queues", "/", queue))["backing_queue_status"]["mode"] == mode
    with channel_error(406) as refusal:
        arguments = {"x-queue-mode": "idle"}
        connect().channel().queue_declare(names("other"), arguments=arguments)
    assert "invalid arg 'x-queue-mode'" in refusal.text


def test_c102_mode_by_policy(connect: Connect, names: Names, api: Api, control: Control) -> None:
    """A policy with queue-mode makes queues lazy."""
    queue = names("q")
    connect().channel().queue_declare(queue, durable=True)
    words = ("set_policy", "Lazy", f"^{queue}$")
    misprinted = control(*words, '{"queue-mode":" lazy"}', "--apply-to", "queues")
    assert misprinted.code == 65
    control.ok(*words, '{"queue-mode":"lazy"}', "--apply-to", "queues")
    eventually(lambda: _mode(api, queue) == "lazy")
    control.ok("clear_policy Lazy")


def test_c103_argument_and_policy(
    connect: Connect, names: Names, api: Api, control: Control
) -> None:
    """If both an argument and a policy set the mode of a queue, the policy goes first."""
    channel = connect().channel()
    for mode, other in (("default", "lazy"), ("lazy", "default")):
        queue = names(mode)
        channel.queue_declare(queue, durable=True, arguments={"x-queue-mode": mode})
        control.ok("set_policy", queue, f"^{queue}$", f'{{"queue-mode":"{other}"}}')
        assert api.must(api.get("queues", "/", queue))["policy"] == queue
        assert _mode(api, queue) == mode, "the argument does, here and in RabbitMQ"
        control.ok(f"clear_policy {queue}")


def test_c104_declared_mode(connect: Connect, names: Names) -> None:
    """The mode of a queue that was declared with one changes only if the queue is deleted."""
    queue, lazy = names("q"), {"x-queue-mode": "lazy"}
    connect().channel().queue_declare(queue, arguments=lazy)
    with channel_error(406) as refusal:
        connect().channel().queue_declare(queue, arguments={"x-queue-mode": "default"})
    assert "inequivalent arg 'x-queue-mode'" in refusal.text
    channel = connect().channel()
    channel.queue_delete(queue)
    channel.queue_declare(queue, arguments={"x-queue-mode": "default"})


def test_c133_channels(raw: ConnectRaw, names: Names, connect: Connect) -> None:
    """Several channels of a connection are independent of each other."""
    client: RawClient = raw(channels=3)
    queue = names("q")
    client.call(1, "queue.declare", queue=queue)
    client.send(2, "queue.declare", queue="no such queue", passive=True)
    client.expect_channel_close(2, 404)
    client.publish(3, b"still open", routing_key=queue)
    client.call(3, "queue.declare", queue=queue, passive=True)
    assert drain(connect().channel(), queue) == [b"still open"]


def _mode(api: Api, queue: str) -> str:
    return str(api.must(api.get("queues", "/", queue))["backing_queue_status"]["mode"])
