"""The access matrix: tag x virtual host x right x every resource, method of AMQP and page.

Resources, methods and pages are taken from the tables of the code, what is expected of each from
`access_rules`: so one that is new has to be decided upon there.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from starlette.applications import Starlette

from acceptance.management_client import Answer, Api
from acceptance.raw_client import ConnectionEnded, Login, RawClient
from acceptance.raw_methods import decode_method
from broker_process import Address, BrokerProcess
from security.access_rules import (
    AMQP,
    AUDIENCES,
    HTTP,
    HTTP_CHANGES,
    HTTP_METHODS,
    HTTP_RIGHTS,
    OPEN_PAGES,
    PAGES_FOR,
    ROUTES,
    TAGS,
)
from security.page_client import ask_page, log_in_to_page
from warren.channels.dispatch import HANDLERS
from warren.config.settings import Config
from warren.management.application import FAMILIES, build_application
from warren.management.page.contents import PAGES
from warren.server.node import Node

OWN, OTHER = "own", "other"
RIGHTS: Final = ("configure", "write", "read")
READING: Final = ("GET",)
RESOURCES: Final = {
    resource.path: [m for m in resource.allowed_methods if m not in ("HEAD", "OPTIONS")]
    for family in FAMILIES
    for resource in family
}
REQUESTS: Final = [(method, path) for path, methods in RESOURCES.items() for method in methods]
# Requests about one thing in a virtual host, which rights decide about.
ABOUT_THINGS: Final = [
    (method, path)
    for method, path in REQUESTS
    if HTTP.get(path) == "tenants" and re.search(r"\{(queue|exchange|source)\}", path)
]
USES: Final = [
    f"{method} {page.path}"
    for page in PAGES
    for method, handler in (("GET", page.get), ("POST", page.post))
    if handler is not None and not page.is_open
]
# Pages about a virtual host: it stands in the path, or in the form.
OF_A_VHOST: Final = [
    use for use in USES if "{vhost}" in use or PAGES_FOR.get(use) in ("tenants", "policymakers")
]
FORM: Final = {
    "name": "missing", "user": "missing", "group": "missing", "source": "missing",
    "destination": "missing", "properties_key": "~", "routing_key": "", "type": "fanout",
    "pattern": "^missing$", "key": "max-length", "value": "1", "count": "1", "kind": "queue",
    "limit": "max-queues", "password": "x", "file": "{}", "watermark": "1GB", "offset": "0",
    "payload": "x", "definition": "{}", "apply_to": "queues", "priority": "0",
}  # fmt: skip
NAMES: Final = {
    "queue": "q", "exchange": "x", "source": "x", "kind": "q", "destination": "q",
    "properties_key": "~", "group": "g", "port": "1", "within": "1", "unit": "days",
}  # fmt: skip
BODIES: Final = {
    "publish": {"routing_key": "", "payload": "", "payload_encoding": "string", "properties": {}},
    "get": {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"},
    "move": {"destination": "elsewhere"},
    "{group}": {"offset": 0},
}


@dataclass(frozen=True)
class World:
    """Users by name: one for each tag, one that lacks each right, and one without any."""

    api: Api

    def user(self, name: str) -> Api:
        return self.api.as_user(name, "secret")

    def ask(self, user: str, method: str, path: str, vhost: str, missing: bool) -> Answer:
        def fill(match: re.Match[str]) -> str:
            name = match[1]
            return vhost if name == "vhost" else "missing" if missing else NAMES.get(name, name)

        body = BODIES.get(path.rpartition("/")[2], {}) if method in ("PUT", "POST") else None
        return self.user(user).call(method, "/api" + re.sub(r"\{(\w+)\}", fill, path), body)

    def prepare(self) -> None:
        """What a test may have deleted is there again."""
        api = self.api
        api.must(api.put("exchanges", OWN, "x", body={"type": "fanout", "durable": True}))
        stream = {"x-queue-type": "stream"}
        for queue, arguments in (("q", {}), ("s", stream)):
            body = {"durable": True, "arguments": arguments}
            api.must(api.put("queues", OWN, queue, body=body))
        api.must(api.delete("queues", OWN, "q", "contents"))
        api.must(api.post("bindings", OWN, "e", "x", "q", "q", body={}))
        api.must(api.put("warren", "streams", OWN, "s", "groups", "g", body={"offset": 0}))
        api.must(api.put("warren", "super-streams", OWN, "p"))

    def prepare_other(self) -> None:
        """In the virtual host of others there is the same to see."""
        self.prepare()
        self.api.must(self.api.put("permissions", OTHER, "guest", body=dict.fromkeys(RIGHTS, ".*")))
        self.api.must(self.api.put("exchanges", OTHER, "x", body={"type": "fanout"}))
        self.api.must(self.api.put("queues", OTHER, "q", body={"durable": True}))


@pytest.fixture(scope="module")
def world(broker: BrokerProcess) -> World:
    api = Api(Address("127.0.0.1", broker.http_port))
    for vhost in (OWN, OTHER):
        api.must(api.put("vhosts", vhost))
    everything = dict.fromkeys(RIGHTS, ".*")
    api.must(api.put("permissions", OWN, "guest", body=everything))
    rows = {tag: (tag.replace("none", ""), everything) for tag in TAGS}
    for right in RIGHTS:
        rows[f"without-{right}"] = ("management", {**everything, right: ""})
        rows[f"only-{right}"] = ("management", {**dict.fromkeys(RIGHTS, ""), right: ".*"})
    rows["only-write-read"] = ("management", {**everything, "configure": ""})
    rows["only-configure-write-read"] = ("management", everything)
    rows["only-"] = ("management", dict.fromkeys(RIGHTS, ""))
    for tag in TAGS:  # no tag stands for a right
        rows[f"{tag}-without-rights"] = (tag.replace("none", ""), dict.fromkeys(RIGHTS, ""))
    for name, (tags, rights) in rows.items():
        api.must(api.put("users", name, body={"password": "secret", "tags": tags}))
        api.must(api.put("permissions", OWN, name, body=rights))
    return World(api)


def test_every_resource_has_a_rule_and_every_rule_a_resource() -> None:
    assert set(RESOURCES) == set(HTTP)
    assert {path: " ".join(methods) for path, methods in RESOURCES.items()} == HTTP_METHODS
    rights = {f"{method} {path}" for method, path in ABOUT_THINGS}
    assert set(HTTP_RIGHTS) <= rights
    changing = {f"{m} {path}" for m, path in ABOUT_THINGS if m not in READING}
    assert changing <= set(HTTP_RIGHTS), "a change without a right"


def test_every_other_address_has_a_rule(tmp_path: Path) -> None:
    async def build() -> Starlette:
        return build_application(Node(Config(data_dir=tmp_path)))

    application = asyncio.run(build())
    assert {getattr(route, "path", None) for route in application.routes} == set(ROUTES)


def test_every_method_of_amqp_has_a_rule() -> None:
    assert {method.name for method in HANDLERS} | {"Basic.Publish"} == set(AMQP)


@pytest.mark.parametrize(("method", "path"), REQUESTS, ids=lambda text: text)
def test_tags_and_virtual_hosts_decide_who_may_ask(world: World, method: str, path: str) -> None:
    """Administrators are not tried with changes: a node would be stopped, or all users deleted."""
    found, expected = {}, {}
    in_own, in_other = AUDIENCES[HTTP_CHANGES.get(f"{method} {path}", HTTP[path])]
    for vhost, tags in ((OWN, in_own), (OTHER, in_other if "{vhost}" in path else in_own)):
        for tag in TAGS:
            if tag == "administrator" and method not in READING:
                continue
            answer = world.ask(tag, method, path, vhost, missing=True)
            assert answer.status < 500 or path.startswith("/health"), answer
            found[tag, vhost] = answer.status != 401
            expected[tag, vhost] = tag in tags
    assert found == expected


def with_streams_named(path: str) -> str:
    """The path with the names of a stream and of a super stream where it is about one."""
    path = path.replace("/super-streams/{vhost}/{exchange}", "/super-streams/{vhost}/p")
    return path.replace("/streams/{vhost}/{queue}", "/streams/{vhost}/s")


@pytest.mark.parametrize(("method", "path"), ABOUT_THINGS, ids=lambda text: text)
def test_rights_decide_about_queues_and_exchanges(world: World, method: str, path: str) -> None:
    world.prepare()
    needed = HTTP_RIGHTS.get(f"{method} {path}", "").split()
    path = with_streams_named(path)
    for right in needed:
        answer = world.ask(f"without-{right}", method, path, OWN, missing=False)
        is_refused = answer.status == 401 or "ACCESS_REFUSED" in str(answer.body)
        assert is_refused, f"without the right to {right}: {answer}"
    answer = world.ask(f"only-{'-'.join(needed)}", method, path, OWN, missing=False)
    assert answer.status not in (401, 404) or path.endswith("/move"), answer


# Old methods that the client of these tests cannot write; they take no right.
NOT_WRITTEN: Final = ("Access.Request", "Basic.RecoverAsync")
FIELDS: Final[dict[str, dict[str, Any]]] = {
    "Exchange.Declare": {"exchange": "new", "type": "fanout"},
    "Exchange.Delete": {"exchange": "x"},
    "Exchange.Bind": {"destination": "amq.fanout", "source": "x"},
    "Exchange.Unbind": {"destination": "amq.fanout", "source": "x"},
    "Queue.Declare": {"queue": "new"},
    "Queue.Delete": {"queue": "q"},
    "Queue.Bind": {"queue": "q", "exchange": "x"},
    "Queue.Unbind": {"queue": "q", "exchange": "x"},
    "Queue.Purge": {"queue": "q"},
    "Basic.Consume": {"queue": "q"},
    "Basic.Get": {"queue": "q"},
}


def code_of(broker: BrokerProcess, user: str, method: str) -> int:
    """Do it on a channel of its own; the code that the channel is closed with, or 0."""
    with RawClient(broker.address) as client:
        client.open(Login(user, "secret", OWN))
        client.call(1, "confirm.select")
        if method == "Basic.Publish":
            client.send_bytes(client.publish_frames(1, b"", exchange="x", routing_key=""))
        else:
            client.send(1, method.lower(), **FIELDS.get(method, {}))
        while True:
            try:
                frame = client.receive()
            except ConnectionEnded:
                return -1
            if frame.type == 1:
                answered = decode_method(frame.payload)
                return int(answered.reply_code) if answered.name == "channel.close" else 0


@pytest.mark.parametrize("method", [name for name, rights in AMQP.items() if rights])
def test_rights_decide_about_methods_of_amqp(
    world: World, broker: BrokerProcess, method: str
) -> None:
    needed = AMQP[method].split()
    for right in needed:
        world.prepare()
        assert code_of(broker, f"without-{right}", method) == 403, right
    world.prepare()
    assert code_of(broker, f"only-{'-'.join(needed)}", method) == 0


@pytest.mark.parametrize("method", [name for name, rights in AMQP.items() if rights])
def test_no_tag_stands_for_a_right_in_amqp(
    world: World, broker: BrokerProcess, method: str
) -> None:
    world.prepare()
    codes = {tag: code_of(broker, f"{tag}-without-rights", method) for tag in TAGS}
    assert codes == dict.fromkeys(TAGS, 403)


@pytest.mark.parametrize("method", [n for n in AMQP if not AMQP[n] and n not in NOT_WRITTEN])
def test_methods_about_the_channel_itself_take_no_right(
    world: World, broker: BrokerProcess, method: str
) -> None:
    """What they refer to may be missing (406), or what they do (540); no right is."""
    assert code_of(broker, "none-without-rights", method) != 403


@pytest.mark.parametrize("request_", HTTP_RIGHTS)
def test_no_tag_stands_for_a_right_in_the_api(world: World, request_: str) -> None:
    world.prepare()
    method, path = request_.split()
    path = with_streams_named(path)
    for tag in TAGS[1:]:
        answer = world.ask(f"{tag}-without-rights", method, path, OWN, missing=False)
        is_refused = answer.status == 401 or "ACCESS_REFUSED" in str(answer.body)
        assert is_refused, f"{tag}: {answer}"


@pytest.mark.parametrize("tag", TAGS)
def test_no_tag_opens_another_virtual_host_to_amqp(
    world: World, broker: BrokerProcess, tag: str
) -> None:
    assert world.user(tag).get("whoami").status == (401 if tag == "none" else 200)
    with RawClient(broker.address) as client:
        login = Login(tag, "secret", OTHER)
        client.log_in(login)
        client.accept_tuning(login)
        client.send(0, "connection.open", virtual_host=OTHER)
        client.expect_connection_close(530)


def test_pages_that_need_no_session_are_those_few() -> None:
    assert {page.path for page in PAGES if page.is_open} == OPEN_PAGES


def test_every_page_has_a_rule() -> None:
    assert set(USES) == set(PAGES_FOR)


@pytest.fixture(scope="module")
def sessions(world: World, broker: BrokerProcess) -> dict[str, tuple[str, str]]:
    """A cookie and a token for forms, for each tag that may sign in."""
    found = {}
    for tag in TAGS[1:]:
        cookie = log_in_to_page(broker.http_port, tag, "secret").cookie
        found[tag] = cookie, ask_page(broker.http_port, "GET", "/queues", cookie=cookie).token
    return found


def page_address(use: str, vhost: str) -> str:
    """What a form is about is missing, so that nothing changes; what is shown is there."""
    names = {**NAMES, "vhost": vhost, "node": "missing"}
    if use.startswith("POST"):
        names |= {"queue": "missing", "exchange": "missing"}
    return re.sub(r"\{(\w+)\}", lambda match: names.get(match[1], match[1]), use.partition(" ")[2])


@pytest.mark.parametrize("use", USES)
def test_tags_and_virtual_hosts_decide_who_may_see_and_use_a_page(
    world: World, broker: BrokerProcess, sessions: dict[str, tuple[str, str]], use: str
) -> None:
    """Administrators are not tried with changes, as above."""
    if use == "POST /logout":
        return
    world.prepare_other()
    method = use.partition(" ")[0]
    in_own, in_other = AUDIENCES[PAGES_FOR[use]]
    found, expected = {}, {}
    for vhost, tags in ((OWN, in_own), (OTHER, in_other if use in OF_A_VHOST else in_own)):
        for tag, (cookie, token) in sessions.items():
            if method == "POST" and tag == "administrator":
                continue
            form = urlencode({**FORM, "csrf": token, "vhost": vhost}).encode()
            raw = form if method == "POST" else None
            answer = ask_page(
                broker.http_port, method, page_address(use, vhost), raw, cookie=cookie
            )
            assert answer.status < 500, answer.text
            found[tag, vhost] = answer.status not in (401, 403)
            expected[tag, vhost] = tag in tags
    assert found == expected


@pytest.mark.parametrize("page", [p for p in PAGES if not p.is_open], ids=lambda p: p.path)
def test_a_page_is_shown_and_used_only_by_who_may(
    world: World, broker: BrokerProcess, page: Any
) -> None:
    port = broker.http_port
    names = {**NAMES, "vhost": OTHER}
    path = re.sub(r"\{(\w+)\}", lambda match: names.get(match[1], match[1]), page.path)
    cookie = log_in_to_page(port, "management", "secret").cookie
    if page.get is not None:
        assert ask_page(port, "GET", path).headers["location"].startswith("/login")
        if "{vhost}" in page.path:
            shown = ask_page(port, "GET", path, cookie=cookie)
            assert shown.status in (401, 403, 404), "of a virtual host that is not the user's"
    if page.post is not None:
        assert ask_page(port, "POST", path, b"").headers["location"].startswith("/login")
        assert ask_page(port, "POST", path, b"", cookie=cookie).status == 403, "without a token"
        if page.path == "/logout":
            return
        token = ask_page(port, "GET", "/queues", cookie=cookie).token
        form = f"csrf={token}&vhost={OTHER}&name=missing&watermark=1GB".encode()
        used = ask_page(port, "POST", path, form, cookie=cookie)
        assert used.status in (400, 401, 403, 404, 405), "nothing there is the user's to change"
