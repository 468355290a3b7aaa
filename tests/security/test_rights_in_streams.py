"""Reading a stream does not give the right to fill the disk with it."""

from __future__ import annotations

import pytest

from acceptance.management_client import Api
from broker_process import BrokerProcess

STREAM = ("warren", "streams", "/", "kept")


@pytest.fixture
def reader(api: Api) -> Api:
    """A user who may read everything, and nothing else."""
    stream = {"durable": True, "arguments": {"x-queue-type": "stream"}}
    api.must(api.put("queues", "/", "kept", body=stream))
    api.must(api.put("users", "reader", body={"password": "secret", "tags": "management"}))
    rights = {"configure": "", "write": "", "read": ".*"}
    api.must(api.put("permissions", "/", "reader", body=rights))
    return api.as_user("reader", "secret")


def test_retention_is_switched_by_who_may_configure_the_queue(
    api: Api, reader: Api, broker: BrokerProcess
) -> None:
    group = (*STREAM, "groups", "pin")
    assert reader.put(*group, body={"offset": 0, "retain": True}).status == 401
    assert reader.must(reader.put(*group, body={"offset": 0}))["retain"] is False
    assert reader.put(*group, body={"offset": 0, "retain": True}).status == 401
    assert api.must(api.put(*group, body={"offset": 0, "retain": True}))["retain"] is True
    assert reader.must(reader.put(*group, body={"offset": 0}))["retain"] is True, "it stays"
    assert reader.put(*group, body={"offset": 0, "retain": False}).status == 401
    assert reader.delete(*group).status == 401
    api.must(api.delete(*group))
    lines = [line for line in broker.log().splitlines() if "admin change" in line]
    changes = [line for line in lines if "/groups/pin" in line]
    assert ["user=guest" in line for line in changes] == [True, True]


def test_readers_keep_groups_of_their_own(reader: Api) -> None:
    group = (*STREAM, "groups", "own")
    reader.must(reader.put(*group, body={"offset": 0}))
    reader.must(reader.delete(*group))


def test_the_directory_on_the_server_is_shown_to_monitors_only(api: Api, reader: Api) -> None:
    assert "directory" in api.must(api.get(*STREAM))
    assert "directory" not in reader.must(reader.get(*STREAM))
