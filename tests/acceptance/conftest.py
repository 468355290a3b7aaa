"""What every test here may ask for: a broker, connections to it, names of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import pytest

from acceptance.administration import (
    Administration,
    Grant,
    HttpAdministration,
    InProcessAdministration,
)
from acceptance.control import control
from acceptance.management_client import api, vhost
from acceptance.raw_client import Login, RawClient
from broker_process import Address
from live_broker import broker, channel, connect, names, own_broker, raw


@dataclass
class Realm:
    """A vhost of the test's own and its users; `open` connects to it."""

    admin: Administration
    vhost: str
    users: list[str] = field(default_factory=list)
    clients: list[RawClient] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def add_user(self, *tags: str, **grant: str) -> str:
        """With `grant` patterns of the three permissions; all are `.*` unless told otherwise."""
        name = f"{self.vhost}-user-{next(self._numbers)}"
        self.users.append(name)
        self.admin.add_user(name, f"secret of {name}", tags)
        self.admin.grant(Grant(name, self.vhost, **grant))
        return name

    def login(self, user: str) -> Login:
        return Login(user=user, password=f"secret of {user}", vhost=self.vhost)

    def open(self, user: str, channels: int = 1) -> RawClient:
        client = self.connect()
        return client.open(self.login(user), channels)

    def connect(self) -> RawClient:
        client = RawClient(self.admin.address)
        self.clients.append(client)
        return client


@pytest.fixture(scope="session")
def administration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Administration]:
    admin: Administration
    if "WARREN_TEST_BROKER_HTTP" in os.environ:
        host, _, port = os.environ["WARREN_TEST_BROKER"].rpartition(":")
        http_address = os.environ["WARREN_TEST_BROKER_HTTP"]
        admin = HttpAdministration(Address(host, int(port)), http_address)
    else:
        admin = InProcessAdministration(tmp_path_factory.mktemp("administered"))
    yield admin
    admin.stop()


@pytest.fixture
def realm(administration: Administration) -> Iterator[Realm]:
    realm = Realm(administration, f"realm-{uuid.uuid4().hex[:8]}")
    administration.add_vhost(realm.vhost)
    yield realm
    for client in realm.clients:
        client.drop()
    for user in realm.users:
        administration.delete_user(user)
    administration.delete_vhost(realm.vhost)


__all__ = [
    "Realm", "administration", "api", "broker", "channel", "connect", "control", "names",
    "own_broker", "raw", "realm", "vhost",
]  # fmt: skip
