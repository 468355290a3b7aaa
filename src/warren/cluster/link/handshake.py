"""The handshake of a link: each node proves that it knows the cluster's secret; neither sends it.

    asker                                     server
      | Hello(protocol, cluster, node, nonce a) ->|
      |<- Welcome(node, nonce s) -----------------|
      | Proof(proof of asker) ------------------->|
      |<- Accepted(proof of server), or Refused --|

A proof is an HMAC over the role, both nonces, both names and, where the link is encrypted, a value
that both ends of one TLS connection have in common; its key is made of the secret. So it is good
for this meeting, this role and this connection only: it can be neither replayed nor reflected, nor
passed on by somebody between two encrypted connections.

The asker proves first. A server that proved first would give every stranger who says hello an HMAC,
and with it guesses at the secret that need no further packet. For those who get hold of a proof all
the same (they pretend to be a node, and are asked), the key is stretched with scrypt, once per
process: each guess costs them 16 MiB and tens of milliseconds.

Both sides check the protocol first, and say in words what does not fit; a stranger is not told the
name of the cluster. Pure: `handle(control) -> answer`.
"""

from __future__ import annotations

import functools
import hashlib
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
_KEY_BYTES: Final = 32
_SCRYPT_COST: Final = 2**14
_SCRYPT_BLOCK: Final = 8
_SALT: Final = b"warren cluster secret"


@functools.lru_cache(maxsize=16)
def stretched(secret: str) -> bytes:
    """Return the key that is made of the cluster's secret; the first call takes some 50 ms."""
    return hashlib.scrypt(
        secret.encode(), salt=_SALT, n=_SCRYPT_COST, r=_SCRYPT_BLOCK, p=1, dklen=_KEY_BYTES
    )


@dataclass(frozen=True, slots=True)
class Identity:
    cluster: str
    node: str
    incarnation: str
    version: str
    key: bytes = field(repr=False)
    """Made of the cluster's secret: see `stretched`."""


class LinkRefused(Exception):
    """The other side is not who we should talk to, or does not want to talk to us."""


class NotOfThisCluster(LinkRefused):
    """These two can never meet as they are: other secrets, or other protocols."""


class ClientHandshake:
    """`binding` is the value that both ends of the TLS connection have in common, if there is one.

    It is known, and to be set, before `begin`.
    """

    def __init__(self, me: Identity, peer: str, nonce: bytes) -> None:
        self._me = me
        self._peer = peer
        self._nonce = nonce
        self._awaited: bytes | None = None
        self.binding = b""
        self.peer_incarnation: str | None = None
        self.is_done = False

    def begin(self) -> Hello:
        me = self._me
        return Hello(PROTOCOL, me.version, me.cluster, me.node, me.incarnation, self._nonce)

    def handle(self, control: Control) -> Control | None:
        """Return the answer; raise LinkRefused."""
        if isinstance(control, Refused):
            kind = NotOfThisCluster if control.is_for_good else LinkRefused
            raise kind(f"node '{self._peer}' refused us: {control.reason}")
        if isinstance(control, Accepted) and self._awaited is not None and not self.is_done:
            if not hmac.compare_digest(control.proof, self._awaited):
                raise _another_secret(self._peer, self.binding)
            self.is_done = True
            return None
        if not isinstance(control, Welcome) or self._awaited is not None:
            raise LinkRefused(f"node '{self._peer}' said {type(control).__name__} out of turn")
        _require_protocol(control.protocol, f"node '{self._peer}' ({control.version})")
        if control.node != self._peer:
            raise LinkRefused(
                f"at the address of node '{self._peer}' answers node '{control.node}'"
            )
        if len(control.nonce) < NONCE_BYTES_MIN:
            raise LinkRefused("the nonce is too short")
        told = (self._nonce + control.nonce, self._me.node, control.node, self.binding)
        self.peer_incarnation = control.incarnation
        self._awaited = _proof(self._me, b"server", told)
        return Proof(_proof(self._me, b"asker", told))


class ServerHandshake:
    """`binding` is set before the first control is handled, as with `ClientHandshake`."""

    def __init__(self, me: Identity, nonce: bytes) -> None:
        self._me = me
        self._nonce = nonce
        self._hello: Hello | None = None
        self.binding = b""
        self.is_done = False

    @property
    def peer(self) -> Hello:
        assert self._hello is not None, "nobody has said hello yet"
        return self._hello

    def handle(self, control: Control) -> Control:
        """Return the answer; raise LinkRefused, whose text is for the other side too."""
        if isinstance(control, Hello) and self._hello is None:
            return self._welcome(control)
        if not isinstance(control, Proof) or self._hello is None or self.is_done:
            raise LinkRefused(f"{type(control).__name__} came out of turn")
        hello = self._hello
        told = (hello.nonce + self._nonce, hello.node, self._me.node, self.binding)
        if not hmac.compare_digest(control.proof, _proof(self._me, b"asker", told)):
            raise _another_secret(hello.node, self.binding)
        self.is_done = True
        return Accepted(_proof(self._me, b"server", told))

    def _welcome(self, hello: Hello) -> Welcome:
        me = self._me
        _require_protocol(hello.protocol, f"node '{hello.node}' ({hello.version})")
        if hello.cluster != me.cluster:
            raise LinkRefused(f"this is another cluster, not '{hello.cluster}'")
        if hello.node == me.node:
            raise LinkRefused(f"there is a node '{me.node}' already: this one")
        if len(hello.nonce) < NONCE_BYTES_MIN:
            raise LinkRefused("the nonce is too short")
        self._hello = hello
        return Welcome(PROTOCOL, me.version, me.node, me.incarnation, self._nonce)


def _another_secret(node: str, binding: bytes) -> NotOfThisCluster:
    relayed = ", or somebody between the nodes ends their TLS connections" if binding else ""
    return NotOfThisCluster(f"node '{node}' has another cluster secret{relayed}")


def _require_protocol(protocol: int, who: str) -> None:
    if protocol != PROTOCOL:
        raise NotOfThisCluster(
            f"{who} speaks version {protocol} of the link protocol, this node {PROTOCOL}: "
            "all nodes of a cluster have to run the same version"
        )


def _proof(me: Identity, role: bytes, told: tuple[bytes, str, str, bytes]) -> bytes:
    """`told`: both nonces, the asker's name, the server's, and the binding to the connection."""
    nonces, asker, server, binding = told
    parts = (role, me.cluster.encode(), asker.encode(), server.encode(), nonces, binding)
    text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.digest(me.key, text, "sha256")
