"""The management API as tests call it: real HTTP, JSON in and out, one connection per call."""

from __future__ import annotations

import base64
import http.client
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import pytest

from broker_process import Address, BrokerProcess

ANSWERED_WITHIN_S: Final = 60.0
EMPTY: Final[Mapping[str, object]] = {}


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: dict[str, str]

    @property
    def refusal(self) -> tuple[int, str, Any]:
        return self.status, self.body["error"], self.body["reason"]


class Api:
    """`get("queues", "/", "q")` asks for /api/queues/%2F/q; `query` becomes `?name=value`."""

    def __init__(self, address: Address, user: str = "guest", password: str = "guest") -> None:
        self.address = address
        self.user = user
        self.timeout_s = ANSWERED_WITHIN_S
        self._password = password

    def as_user(self, user: str, password: str) -> Api:
        return Api(self.address, user, password)

    def get(self, *parts: str, **query: object) -> Answer:
        return self.call("GET", path_of(parts, query))

    def put(self, *parts: str, body: object = None) -> Answer:
        return self.call("PUT", path_of(parts), body)

    def post(self, *parts: str, body: object = None) -> Answer:
        return self.call("POST", path_of(parts), body)

    def delete(self, *parts: str, **query: object) -> Answer:
        return self.call("DELETE", path_of(parts, query))

    @property
    def credentials(self) -> dict[str, str]:
        encoded = base64.b64encode(f"{self.user}:{self._password}".encode()).decode()
        return {"Authorization": f"Basic {encoded}"}

    def must(self, answer: Answer) -> Any:
        """What was answered, which must not be a refusal."""
        assert answer.status < 300, answer
        return answer.body

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        if headers is None:
            headers = {**self.credentials, "Content-Type": "application/json"}
        if raw is None and body is not None:
            raw = json.dumps(body).encode()
        connection = self._connect()
        try:
            connection.request(method, path, raw, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        decoded = json.loads(data) if data else None
        return Answer(answer.status, decoded, {k.lower(): v for k, v in answer.getheaders()})

    def begin(self, method: str, path: str) -> http.client.HTTPConnection:
        """Ask, and do not read the answer; closing the connection is the caller's."""
        connection = self._connect()
        connection.request(method, path, None, self.credentials)
        return connection

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self.address
        return http.client.HTTPConnection(host, port, timeout=self.timeout_s)


def path_of(parts: Sequence[str], query: Mapping[str, object] = EMPTY) -> str:
    path = "/api/" + "/".join(quote(part, safe="") for part in parts)
    asked = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
    return f"{path}?{asked}" if asked else path


@pytest.fixture(scope="session")
def api(own_broker: BrokerProcess | None) -> Api:
    """Of the broker started for these tests, or of the one at WARREN_TEST_BROKER_HTTP."""
    if own_broker is not None:
        return Api(Address("127.0.0.1", own_broker.http_port))
    if "WARREN_TEST_BROKER_HTTP" not in os.environ:
        pytest.skip("WARREN_TEST_BROKER_HTTP does not say where the management API is")
    host, _, port = os.environ["WARREN_TEST_BROKER_HTTP"].rpartition(":")
    return Api(Address(host, int(port)))


@pytest.fixture
def vhost(api: Api) -> Iterator[str]:
    """A virtual host of the test's own, with permissions for guest."""
    name = f"f-{uuid.uuid4().hex[:8]}"
    api.must(api.put("vhosts", name))
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    api.put("permissions", name, "guest", body=everything)
    yield name
    api.delete("vhosts", name)


__all__ = ["Answer", "Api", "api", "path_of", "vhost"]
