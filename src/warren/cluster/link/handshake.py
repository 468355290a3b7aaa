"""Two nodes meet: each proves that it knows the cluster's secret, and neither sends it.

    asker                                     server
      | Hello(protocol, cluster, node, nonce a) ->|
      |<- Welcome(node, nonce s, proof of server) |
      | Proof(proof of asker) ------------------->|
      |<- Accepted, or Refused(reason) -----------|

A proof is an HMAC over the role, both nonces and both names, keyed with the secret: it is good for
this meeting and this role only, so it can be neither replayed nor reflected. Both sides check the
protocol first, and say in words what does not fit. Pure: `handle(control) -> answer`.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Final

from warren.cluster.link.control import (
    PROTOCOL,
    Accepted,
    Control,
    Hello,
    Proof,
    Refused,
    Welcome,
)

NONCE_BYTES: Final = 32
NONCE_BYTES_MIN: Final = 16


@dataclass(frozen=True, slots=True)
class Identity:
    cluster: str
    node: str
    incarnation: str
    version: str
    secret: bytes = field(repr=False)


class LinkRefused(Exception):
    """The other side is not who we should talk to, or does not want to talk to us."""


class NotOfThisCluster(LinkRefused):
    """These two can never meet as they are: other secrets, or other protocols."""


class ClientHandshake:
    def __init__(self, me: Identity, peer: str, nonce: bytes) -> None:
        self._me = me
        self._peer = peer
        self._nonce = nonce
        self.peer_incarnation: str | None = None
        self.is_done = False

    def begin(self) -> Hello:
        me = self._me
        return Hello(PROTOCOL, me.version, me.cluster, me.node, me.incarnation, self._nonce)

    def handle(self, control: Control) -> Control | None:
        """What to answer; raises LinkRefused."""
        if isinstance(control, Refused):
            kind = NotOfThisCluster if control.is_for_good else LinkRefused
            raise kind(f"node '{self._peer}' refused us: {control.reason}")
        if isinstance(control, Accepted) and self.peer_incarnation is not None:
            self.is_done = True
            return None
        if not isinstance(control, Welcome) or self.peer_incarnation is not None:
            raise LinkRefused(f"node '{self._peer}' said {type(control).__name__} out of turn")
        _require_protocol(control.protocol, f"node '{self._peer}' ({control.version})")
        if control.node != self._peer:
            raise LinkRefused(
                f"at the address of node '{self._peer}' answers node '{control.node}'"
            )
        nonces = self._nonce + control.nonce
        names = (self._me.node, control.node)
        if not hmac.compare_digest(control.proof, _proof(self._me, b"server", nonces, names)):
            raise NotOfThisCluster(f"node '{self._peer}' has another cluster secret")
        self.peer_incarnation = control.incarnation
        return Proof(_proof(self._me, b"asker", nonces, names))


class ServerHandshake:
    def __init__(self, me: Identity, nonce: bytes) -> None:
        self._me = me
        self._nonce = nonce
        self._hello: Hello | None = None
        self.is_done = False

    @property
    def peer(self) -> Hello:
        assert self._hello is not None, "nobody has said hello yet"
        return self._hello

    def handle(self, control: Control) -> Control:
        """What to answer; raises LinkRefused, whose text is for the other side too."""
        if isinstance(control, Hello) and self._hello is None:
            return self._welcome(control)
        if not isinstance(control, Proof) or self._hello is None:
            raise LinkRefused(f"{type(control).__name__} came out of turn")
        names = (self._hello.node, self._me.node)
        expected = _proof(self._me, b"asker", self._hello.nonce + self._nonce, names)
        if not hmac.compare_digest(control.proof, expected):
            raise NotOfThisCluster(f"node '{self._hello.node}' has another cluster secret")
        self.is_done = True
        return Accepted()

    def _welcome(self, hello: Hello) -> Welcome:
        me = self._me
        _require_protocol(hello.protocol, f"node '{hello.node}' ({hello.version})")
        if hello.cluster != me.cluster:
            raise LinkRefused(f"this is cluster '{me.cluster}', not '{hello.cluster}'")
        if hello.node == me.node:
            raise LinkRefused(f"there is a node '{me.node}' already: this one")
        if len(hello.nonce) < NONCE_BYTES_MIN:
            raise LinkRefused("the nonce is too short")
        self._hello = hello
        proof = _proof(me, b"server", hello.nonce + self._nonce, (hello.node, me.node))
        return Welcome(PROTOCOL, me.version, me.node, me.incarnation, self._nonce, proof)


def _require_protocol(protocol: int, who: str) -> None:
    if protocol != PROTOCOL:
        raise NotOfThisCluster(
            f"{who} speaks version {protocol} of the link protocol, this node {PROTOCOL}: "
            "all nodes of a cluster have to run the same version"
        )


def _proof(me: Identity, role: bytes, nonces: bytes, names: tuple[str, str]) -> bytes:
    parts = (role, me.cluster.encode(), names[0].encode(), names[1].encode(), nonces)
    told = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.digest(me.secret, told, "sha256")
