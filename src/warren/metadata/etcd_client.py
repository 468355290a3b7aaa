"""Calls to an etcd cluster: one channel to one member at a time, the next one when it fails.

What is said is in `etcd_messages`, how it travels in `etcd_channel`. A call that fails because the
member does not answer, has no leader or is going down closes the channel for everybody: whoever
calls next (the feed included) meets the next member. So does an answer that cannot be read.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

from warren.metadata.etcd_address import EtcdAddress
from warren.metadata.etcd_channel import GrpcChannel, GrpcError
from warren.metadata.etcd_messages import AUTHENTICATE, Method, authenticate_request
from warren.metadata.grpc_frames import Status
from warren.metadata.protobuf_wire import BadMessage
from warren.metadata.store import MetadataUnavailable, MetadataUnusable

Answer = TypeVar("Answer")

CALL_TIMEOUT_S: Final = 3.0
CONNECT_TIMEOUT_S: Final = 1.0

# A member that has lost its leader ends a watch that asks for one, instead of falling silent.
_NEEDS_LEADER: Final = ("hasleader", "true")

_ELSEWHERE: Final = frozenset(
    {
        Status.UNAVAILABLE,
        Status.DEADLINE_EXCEEDED,
        Status.CANCELLED,
        Status.UNKNOWN,
        Status.INTERNAL,
    }
)


class EtcdError(Exception):
    """etcd has answered, and the answer is no; `text` is its own."""

    def __init__(self, code: Status, text: str) -> None:
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

    async def call(self, method: Method[Answer], request: bytes) -> Answer:
        """Ask the current member; raises EtcdError, or NoAnswer after moving on to the next."""
        channel = self._channel or await self._connect()
        endpoint = self.endpoint
        try:
            octets = await channel.call(method.path, request, CALL_TIMEOUT_S, self._metadata)
            return method.read(octets)
        except (GrpcError, BadMessage) as error:
            raise self._failure(channel, endpoint, error) from None

    async def stream(
        self, method: Method[Answer], requests: Iterable[bytes], timeout_s: float | None = None
    ) -> AsyncIterator[Answer]:
        """Answers to a stream of requests that is kept open; raises as `call` does.

        With a time-out, if one of them takes longer.
        """
        channel = self._channel or await self._connect()
        endpoint = self.endpoint
        stream = None
        try:
            stream = channel.stream(method.path, (*self._metadata, _NEEDS_LEADER))
            for request in requests:
                stream.write(request)
            while True:
                async with asyncio.timeout(timeout_s):
                    octets = await stream.read()
                if octets is None:
                    raise NoAnswer(f"etcd at {endpoint} ended a stream")
                yield method.read(octets)
        except TimeoutError:
            self._leave(channel)
            raise NoAnswer(f"etcd at {endpoint} does not answer in {timeout_s:g} s") from None
        except (GrpcError, BadMessage) as error:
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
        request = authenticate_request(self.address.username, self.address.password or "")
        try:
            octets = await channel.call(AUTHENTICATE.path, request, CALL_TIMEOUT_S)
            return (("token", AUTHENTICATE.read(octets)),)
        except BadMessage:
            raise TimeoutError from None
        except GrpcError as error:
            if error.code in _ELSEWHERE:
                raise TimeoutError from None
            raise MetadataUnusable(
                f"etcd at {self.endpoint} refused user '{self.address.username}': "
                f"{error.text}; see the user and password in the etcd address"
            ) from None

    def _failure(
        self, channel: GrpcChannel, endpoint: str, error: GrpcError | BadMessage
    ) -> Exception:
        if isinstance(error, BadMessage):
            self._leave(channel)
            return NoAnswer(f"etcd at {endpoint} answers with what is no message: {error}")
        has_lost_login = error.code is Status.UNAUTHENTICATED
        if error.code not in _ELSEWHERE and not has_lost_login:
            return EtcdError(error.code, error.text)
        self._leave(channel)
        return NoAnswer(f"etcd at {endpoint} does not answer: {error.text or error.code.name}")

    def _leave(self, channel: GrpcChannel) -> None:
        """Only the first who failed moves on: the others failed on the same channel."""
        if self._channel is channel:
            self._turn += 1
            self._close_channel()


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
