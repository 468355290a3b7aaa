"""Calls to an etcd cluster: one channel to one member at a time, the next one when it fails.

Messages are aetcd's; its client takes one endpoint and no certificates, and the library below it
is slow for calls this small, so the channel is our own (`etcd_channel`). A call that fails because
the member does not answer, has no leader or is going down closes the channel for everybody: whoever
calls next (the feed included) meets the next member.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from functools import cache
from typing import Any, Final

import grpc
from aetcd import rpc
from google.protobuf.message_factory import GetMessageClass

from warren.metadata.etcd_address import EtcdAddress
from warren.metadata.etcd_channel import GrpcChannel, GrpcError
from warren.metadata.store import MetadataUnavailable, MetadataUnusable

CALL_TIMEOUT_S: Final = 3.0
CONNECT_TIMEOUT_S: Final = 1.0

# A member that has lost its leader ends a watch that asks for one, instead of falling silent.
_NEEDS_LEADER: Final = ("hasleader", "true")

_ELSEWHERE: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
    }
)


class EtcdError(Exception):
    """etcd has answered, and the answer is no; `text` is its own."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(f"etcd refused: {text}")
        self.code = code
        self.text = text


class NoAnswer(MetadataUnavailable):
    """Nobody answered in time. What was asked for may have been done, or may be done yet."""


class EtcdClient:
    def __init__(self, address: EtcdAddress) -> None:
        self.address = address
        self._turn = 0
        self._channel: GrpcChannel | None = None
        self._metadata: tuple[tuple[str, str], ...] = ()
        self._connecting = asyncio.Lock()
        self._is_closed = False

    @property
    def endpoint(self) -> str:
        return self.address.endpoints[self._turn % len(self.address.endpoints)]

    async def call(self, stub: type, method: str, request: Any) -> Any:
        """The answer of the member in turn; raises EtcdError, or NoAnswer after moving on."""
        channel = self._channel or await self._connect()
        endpoint = self.endpoint
        path, answer_type = _method(stub, method)
        try:
            octets = await channel.call(
                path, request.SerializeToString(), CALL_TIMEOUT_S, self._metadata
            )
        except GrpcError as error:
            raise self._failure(channel, endpoint, error) from None
        return answer_type.FromString(octets)

    async def stream(
        self, stub: type, method: str, requests: Iterable[Any], timeout_s: float | None = None
    ) -> AsyncIterator[Any]:
        """Answers to a stream of requests that is kept open; raises as `call` does.

        With a time-out, if one of them takes longer.
        """
        channel = self._channel or await self._connect()
        endpoint = self.endpoint
        path, answer_type = _method(stub, method)
        stream = None
        try:
            stream = channel.stream(path, (*self._metadata, _NEEDS_LEADER))
            for request in requests:
                stream.write(request.SerializeToString())
            while True:
                async with asyncio.timeout(timeout_s):
                    octets = await stream.read()
                if octets is None:
                    raise NoAnswer(f"etcd at {endpoint} ended a stream")
                yield answer_type.FromString(octets)
        except TimeoutError:
            self._leave(channel)
            raise NoAnswer(f"etcd at {endpoint} does not answer in {timeout_s:g} s") from None
        except GrpcError as error:
            raise self._failure(channel, endpoint, error) from None
        finally:
            if stream is not None:
                stream.cancel()

    async def close(self) -> None:
        self._is_closed = True
        self._close_channel()
        await asyncio.sleep(0)  # the socket is closed behind this turn

    def _close_channel(self) -> None:
        if self._channel is not None:
            channel, self._channel = self._channel, None
            channel.close()

    async def _connect(self) -> GrpcChannel:
        if self._is_closed:
            raise MetadataUnavailable(f"{self.address} is closed")
        async with self._connecting:
            if self._channel is None:
                self._channel = await self._open()
            return self._channel

    async def _open(self) -> GrpcChannel:
        endpoint = self.endpoint
        tls = await asyncio.to_thread(_tls, self.address) if self.address.is_tls else None
        channel = None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                channel = await GrpcChannel.open(endpoint, tls)
                self._metadata = await self._authenticate(channel)
        except (TimeoutError, OSError) as error:
            if channel is not None:
                channel.close()
            self._turn += 1
            reason = "" if isinstance(error, TimeoutError) else f": {error.strerror or error}"
            raise NoAnswer(f"etcd at {endpoint} cannot be reached{reason}") from None
        except BaseException:
            if channel is not None:
                channel.close()
            raise
        return channel

    async def _authenticate(self, channel: GrpcChannel) -> tuple[tuple[str, str], ...]:
        if self.address.username is None:
            return ()
        request = rpc.AuthenticateRequest(
            name=self.address.username, password=self.address.password
        )
        path, answer_type = _method(rpc.AuthStub, "Authenticate")
        try:
            octets = await channel.call(path, request.SerializeToString(), CALL_TIMEOUT_S)
        except GrpcError as error:
            if error.code in _ELSEWHERE:
                raise TimeoutError from None
            raise MetadataUnusable(
                f"etcd at {self.endpoint} refused user '{self.address.username}': "
                f"{error.text}; see the user and password in the etcd address"
            ) from None
        return (("token", answer_type.FromString(octets).token),)

    def _failure(self, channel: GrpcChannel, endpoint: str, error: GrpcError) -> Exception:
        has_lost_login = error.code is grpc.StatusCode.UNAUTHENTICATED
        if error.code not in _ELSEWHERE and not has_lost_login:
            return EtcdError(error.code, error.text)
        self._leave(channel)
        return NoAnswer(f"etcd at {endpoint} does not answer: {error.text or error.code.name}")

    def _leave(self, channel: GrpcChannel) -> None:
        """Only the first who failed moves on: the others failed on the same channel."""
        if self._channel is channel:
            self._turn += 1
            self._close_channel()


@cache
def _method(stub: type, method: str) -> tuple[str, Any]:
    """Where a stub's method is found on the wire, and what it answers with."""
    service = rpc.rpc_pb2.DESCRIPTOR.services_by_name[stub.__name__.removesuffix("Stub")]
    answer_type = GetMessageClass(service.methods_by_name[method].output_type)
    return f"/{service.full_name}/{method}", answer_type


def _tls(address: EtcdAddress) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=address.cacertfile)
        if address.certfile is not None:
            context.load_cert_chain(address.certfile, address.keyfile)
    except OSError as error:
        files = {"cacertfile": address.cacertfile, "certfile": address.certfile}
        named = ", ".join(f"{name} {path}" for name, path in files.items() if path is not None)
        raise MetadataUnusable(
            f"of the etcd address: cannot read {named}: {error.strerror or error}"
        ) from None
    context.set_alpn_protocols(["h2"])
    return context
