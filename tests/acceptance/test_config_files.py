"""Files of a node's configuration: which are read, what they set, and that the node names them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.control import Control
from acceptance.raw_client import Login, RawClient
from broker_process import BrokerProcess

RABBITMQ_CONFIG = """%% -*- mode: erlang -*-
[
 {rabbit,
  [
   %% Memory and disk.
   {vm_memory_high_watermark, {absolute, "900MB"}},
   {vm_memory_high_watermark_paging_ratio, 0.75},
   {disk_free_limit, 50000000},
   {heartbeat, 17},
   {default_user, <<"guest">>},
   {hipe_compile, true}
  ]},
 {rabbitmq_management, [{rates_mode, basic}]}
].
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path)
    yield process
    process.kill()


def heartbeat_of(broker: BrokerProcess) -> int:
    with RawClient(broker.address) as client:
        heartbeat = client.log_in(Login()).heartbeat
        assert isinstance(heartbeat, int)
        return heartbeat


def control_of(broker: BrokerProcess) -> Control:
    return Control(f"http://127.0.0.1:{broker.http_port}")


def test_c118_a_node_starts_with_rabbitmq_config(broker: BrokerProcess, tmp_path: Path) -> None:
    path = tmp_path / "rabbitmq.config"
    path.write_text(RABBITMQ_CONFIG)
    broker.options = ["--config", str(path)]
    broker.start()
    (node,) = broker.ask("/api/nodes")
    assert (node["mem_limit"], node["disk_free_limit"]) == (900_000_000, 50_000_000)
    assert node["config_files"] == [str(path)]
    assert heartbeat_of(broker) == 17
    assert "setting has no effect in this version key=rabbit.hipe_compile" in broker.log()


def test_advanced_config_beside_rabbitmq_conf_goes_before_it(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    main, advanced = tmp_path / "rabbitmq.conf", tmp_path / "advanced.config"
    main.write_text("heartbeat = 10\ndisk_free_limit.absolute = 1MB\n")
    advanced.write_text("[{rabbit, [{heartbeat, 20}]}].")
    broker.environment = {"RABBITMQ_CONFIG_FILE": str(tmp_path / "rabbitmq")}
    broker.start()
    assert heartbeat_of(broker) == 20
    (node,) = broker.ask("/api/nodes")
    assert node["disk_free_limit"] == 1_000_000
    status = control_of(broker).ok("status").out
    section = status.partition("Config files")[2]
    assert section.split("\n\n")[1].splitlines() == [f" * {main}", f" * {advanced}"]


def test_a_wrong_file_of_erlang_terms_ends_the_start_and_is_named(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    path = tmp_path / "rabbitmq.config"
    path.write_text("[{rabbit, [\n  {heartbeat, 20},\n]}].")
    broker.options = ["--config", str(path)]
    with pytest.raises(AssertionError) as failed:
        broker.start()
    assert f"{path}:3:1: expected a term after ',', got ']': remove the comma" in str(failed.value)
