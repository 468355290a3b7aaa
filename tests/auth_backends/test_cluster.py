"""Users of another backend in a cluster: what one node does for them, the others do, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from auth_backends.http_service import ALLOW, DENY, AuthService
from cluster.nodes import ClusterOfNodes, eventually


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, service: AuthService
) -> Iterator[ClusterOfNodes]:
    service.users = {"ann": ("apple", "policymaker")}
    service.decide = lambda kind, asked: DENY if asked.get("name") == "secret" else ALLOW
    config = "auth_backends.1 = http\nauth_backends.2 = internal\n" + service.settings()
    nodes = ClusterOfNodes(tmp_path_factory.mktemp("cluster"), size=2, config=config)
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.stop()


def test_another_node_answers_for_a_user_of_the_service(cluster: ClusterOfNodes) -> None:
    first, second = cluster.nodes
    with first.connect() as connection:
        for name in ("there", "secret"):
            connection.channel().queue_declare(name)
            connection.channel().basic_publish("", name, b"x")
    ann = second.api.as_user("ann", "apple")
    shown = eventually(lambda: ann.get("queues", "/", "there").body, "the queue is seen")
    assert shown["node"] == first.name
    assert {queue["name"] for queue in ann.get("queues").body} >= {"there", "secret"}
    assert ann.delete("queues", "/", "there", "contents").status == 204
    assert ann.delete("queues", "/", "secret", "contents").status == 401
    assert second.api.as_user("ann", "pear").get("queues", "/", "there").status == 401
