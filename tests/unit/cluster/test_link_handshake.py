"""Two nodes meet: who is let in, who is not, and what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from warren.cluster.link.control import PROTOCOL, Accepted, Hello, Proof, Refused
from warren.cluster.link.handshake import (
    ClientHandshake,
    Identity,
    LinkRefused,
    NotOfThisCluster,
    ServerHandshake,
    stretched,
)

ASKER = Identity("c", "a", "a1", "1.0", b"key of all")
SERVER = Identity("c", "s", "s1", "1.0", b"key of all")
NONCES = (b"n" * 32, b"m" * 32)


def meet(asker: Identity, server: Identity, peer: str = "s") -> tuple[ClientHandshake, bool]:
    asking, serving = ClientHandshake(asker, peer, NONCES[0]), ServerHandshake(server, NONCES[1])
    proof = asking.handle(serving.handle(asking.begin()))
    assert proof is not None
    asking.handle(serving.handle(proof))
    return asking, serving.is_done


def test_nodes_with_one_secret_meet() -> None:
    asking, is_served = meet(ASKER, SERVER)
    assert asking.is_done
    assert is_served
    assert asking.peer_incarnation == "s1"


def test_a_server_says_nothing_that_depends_on_the_secret_before_the_asker_has_proved_itself() -> (
    None
):
    """Else every stranger who says hello could guess the secret, without another packet."""
    told = [
        ServerHandshake(replace(SERVER, key=key), NONCES[1]).handle(
            ClientHandshake(ASKER, "s", NONCES[0]).begin()
        )
        for key in (b"one", b"another")
    ]
    assert told[0] == told[1]


def test_an_asker_does_not_go_on_with_a_server_that_cannot_prove_itself() -> None:
    asking = ClientHandshake(ASKER, "s", NONCES[0])
    asking.handle(ServerHandshake(SERVER, NONCES[1]).handle(asking.begin()))
    with pytest.raises(NotOfThisCluster, match="'s' has another cluster secret"):
        asking.handle(Accepted(bytes(32)))
    assert not asking.is_done


def test_nodes_with_different_secrets_do_not_meet() -> None:
    with pytest.raises(NotOfThisCluster, match="'a' has another cluster secret"):
        meet(ASKER, replace(SERVER, key=b"other"))


def test_a_handshake_passed_on_between_two_tls_connections_fails() -> None:
    asking, serving = ClientHandshake(ASKER, "s", NONCES[0]), ServerHandshake(SERVER, NONCES[1])
    asking.binding, serving.binding = b"one connection", b"another connection"
    proof = asking.handle(serving.handle(asking.begin()))
    assert proof is not None
    with pytest.raises(NotOfThisCluster, match="or somebody between the nodes"):
        serving.handle(proof)


def test_the_key_is_stretched_and_depends_on_the_whole_secret() -> None:
    assert len(stretched("known to all nodes")) == 32
    assert stretched("known to all nodes") == stretched("known to all nodes")
    assert stretched("known to all nodes") != stretched("known to all nodez")


def test_an_asker_that_cannot_prove_itself_is_not_served() -> None:
    serving = ServerHandshake(SERVER, NONCES[1])
    serving.handle(ClientHandshake(ASKER, "s", NONCES[0]).begin())
    with pytest.raises(LinkRefused, match="'a' has another cluster secret"):
        serving.handle(Proof(bytes(32)))
    assert not serving.is_done


def test_a_proof_of_the_asker_does_not_prove_the_server() -> None:
    """Reflection: what we proved must not prove anything about somebody else."""
    asking = ClientHandshake(ASKER, "s", NONCES[0])
    proof = asking.handle(ServerHandshake(SERVER, NONCES[1]).handle(asking.begin()))
    assert isinstance(proof, Proof)
    with pytest.raises(NotOfThisCluster):
        asking.handle(Accepted(proof.proof))


def test_a_proof_is_good_for_one_meeting_only() -> None:
    first = ClientHandshake(ASKER, "s", NONCES[0])
    proof = first.handle(ServerHandshake(SERVER, NONCES[1]).handle(first.begin()))
    assert isinstance(proof, Proof)
    later = ServerHandshake(SERVER, b"x" * 32)
    later.handle(first.begin())
    with pytest.raises(LinkRefused):
        later.handle(proof)


def test_another_protocol_is_refused_with_both_numbers() -> None:
    hello = Hello(99, "9.9", "c", "a", "a1", NONCES[0])
    with pytest.raises(LinkRefused, match=rf"version 99 .* this node {PROTOCOL}:"):
        ServerHandshake(SERVER, NONCES[1]).handle(hello)


def test_another_cluster_is_refused_and_not_told_the_name_of_this_one() -> None:
    with pytest.raises(LinkRefused, match=r"this is another cluster, not 'd'$"):
        meet(replace(ASKER, cluster="d"), SERVER)


def test_a_second_node_of_the_same_name_is_refused() -> None:
    with pytest.raises(LinkRefused, match="there is a node 's' already"):
        meet(replace(ASKER, node="s"), SERVER)


def test_somebody_else_at_an_address_is_noticed() -> None:
    with pytest.raises(LinkRefused, match="at the address of node 't' answers node 's'"):
        meet(ASKER, SERVER, peer="t")


def test_a_refusal_is_passed_on_in_words() -> None:
    asking = ClientHandshake(ASKER, "s", NONCES[0])
    with pytest.raises(LinkRefused, match="node 's' refused us: no"):
        asking.handle(Refused("no"))


@pytest.mark.parametrize("control", [Accepted(b""), Proof(b"")])
def test_what_comes_out_of_turn_ends_it(control: Accepted | Proof) -> None:
    with pytest.raises(LinkRefused, match="out of turn"):
        ClientHandshake(ASKER, "s", NONCES[0]).handle(control)
    with pytest.raises(LinkRefused, match="out of turn"):
        ServerHandshake(SERVER, NONCES[1]).handle(control)


def test_the_secret_is_not_shown() -> None:
    assert "key" not in repr(ASKER)
