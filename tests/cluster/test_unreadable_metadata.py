"""A change of the metadata that a node cannot apply: it must not serve another topology."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cluster.nodes import NodeProcess
from etcd_process import EtcdCluster
from warren.metadata.etcd_address import parse_etcd_address
from warren.metadata.etcd_client import EtcdClient
from warren.metadata.etcd_messages import PUT, put_request
from warren.metadata.keys import queue_key

EXIT_UNAVAILABLE = 69
LAST_WORD = "Error: a change of the metadata could not be applied ({key}): "


async def write_past_the_broker(etcd: EtcdCluster, key: str, value: bytes) -> None:
    client = EtcdClient(parse_etcd_address(etcd.url))
    await client.call(PUT, put_request(f"/warren/default/data/{key}".encode(), value))
    await client.close()


def test_a_record_that_a_node_cannot_read_ends_it_with_a_word(tmp_path: Path) -> None:
    etcd = EtcdCluster().start()
    node = NodeProcess(tmp_path / "n1", "n1@localhost", etcd.url)
    try:
        node.start()
        channel = node.channel()
        channel.queue_declare("kept", durable=True)
        key = queue_key("/", "broken")
        asyncio.run(write_past_the_broker(etcd, key, b"no record"))
        assert node.await_end() == EXIT_UNAVAILABLE
        said = node.log()
        assert f"metadata change could not be applied; stopping change={key}" in said
        assert said.splitlines()[-1].startswith(LAST_WORD.format(key=key))
        assert "node has stopped" in said, "in good order"
    finally:
        node.kill()
        etcd.stop()
