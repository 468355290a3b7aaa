"""Calls to an etcd cluster: one channel to one member at a time, the next one when it fails.

Messages and stubs are aetcd's; its client takes one endpoint and no certificates, so the channel
is our own. A call that fails because the member does not answer, has no leader or is going down
closes the channel for everybody: whoever calls next (the feed included) meets the next member.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final

import grpc
from aetcd import rpc

from warren.metadata.etcd_address import EtcdAddress
from warren.metadata.store import MetadataUnavailable, MetadataUnusable

CALL_TIMEOUT_S: Final = 3.0
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
# etcd takes more frequent pings for an attack: its own bound is five seconds.
KEEPALIVE_MS: Final = 6_000
KEEPALIVE_TIMEOUT_MS: Final = 3_000
RECONNECT_MS_MAX: Final = 1_000

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_MS_MAX),
    # Stores of one process must not share a connection: one of them closes it.
    ("grpc.use_local_subchannel_pool", 1),
)
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
        self._channel: grpc.aio.Channel | None = None
        self._metadata: tuple[tuple[str, str], ...] = ()
        self._connecting = asyncio.Lock()
        self._is_closed = False

    @property
    def endpoint(self) -> str:
        return self.address.endpoints[self._turn % len(self.address.endpoints)]

    async def call(self, stub: type, method: str, request: Any) -> Any:
        """The answer of the member in turn; raises EtcdError, or NoAnswer after moving on."""
        channel = await self._connect()
        endpoint = self.endpoint
        try:
            return await getattr(stub(channel), method)(
                request, timeout=CALL_TIMEOUT_S, metadata=self._metadata
            )
        except grpc.aio.AioRpcError as error:
            raise await self._failure(channel, endpoint, error) from None
        except (asyncio.CancelledError, asyncio.InvalidStateError, grpc.aio.UsageError):
            raise _closed_meanwhile(endpoint) from None

    async def stream(self, stub: type, method: str, requests: Iterable[Any]) -> AsyncIterator[Any]:
        """Answers to a stream of requests that is kept open; raises as `call` does."""
        channel = await self._connect()
        endpoint = self.endpoint
        metadata = (*self._metadata, _NEEDS_LEADER)
        stream = getattr(stub(channel), method)(metadata=metadata)
        try:
            for request in requests:
                await stream.write(request)
            while (answer := await stream.read()) is not grpc.aio.EOF:
                yield answer
            raise NoAnswer(f"etcd at {endpoint} ended a stream")
        except grpc.aio.AioRpcError as error:
            raise await self._failure(channel, endpoint, error) from None
        except (asyncio.CancelledError, asyncio.InvalidStateError, grpc.aio.UsageError):
            raise _closed_meanwhile(endpoint) from None
        finally:
            stream.cancel()

    async def close(self) -> None:
        self._is_closed = True
        await self._close_channel()

    async def _close_channel(self) -> None:
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close()

    async def _connect(self) -> grpc.aio.Channel:
        if self._is_closed:
            raise MetadataUnavailable(f"{self.address} is closed")
        if self._channel is not None:
            return self._channel
        async with self._connecting:
            if self._channel is None:
                self._channel = await self._open()
            return self._channel

    async def _open(self) -> grpc.aio.Channel:
        endpoint = self.endpoint
        if self.address.is_tls:
            credentials = await asyncio.to_thread(_credentials, self.address)
            channel = grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)
        else:
            channel = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await channel.channel_ready()
                self._metadata = await self._authenticate(channel)
        except TimeoutError:
            await channel.close()
            self._turn += 1
            raise NoAnswer(f"etcd at {endpoint} cannot be reached") from None
        except BaseException:
            await channel.close()
            raise
        return channel

    async def _authenticate(self, channel: grpc.aio.Channel) -> tuple[tuple[str, str], ...]:
        if self.address.username is None:
            return ()
        request = rpc.AuthenticateRequest(
            name=self.address.username, password=self.address.password
        )
        try:
            answer = await rpc.AuthStub(channel).Authenticate(request, timeout=CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            if error.code() in _ELSEWHERE:
                raise TimeoutError from None
            raise MetadataUnusable(
                f"etcd at {self.endpoint} refused user '{self.address.username}': "
                f"{error.details()}; see the user and password in the etcd address"
            ) from None
        return (("token", answer.token),)

    async def _failure(
        self, channel: grpc.aio.Channel, endpoint: str, error: grpc.aio.AioRpcError
    ) -> Exception:
        code, text = error.code(), error.details() or ""
        has_lost_login = code is grpc.StatusCode.UNAUTHENTICATED
        if code not in _ELSEWHERE and not has_lost_login:
            return EtcdError(code, text)
        await self._leave(channel)
        return NoAnswer(f"etcd at {endpoint} does not answer: {text or code.name}")

    async def _leave(self, channel: grpc.aio.Channel) -> None:
        """Only the first who failed moves on: the others failed on the same channel."""
        if self._channel is channel:
            self._turn += 1
            await self._close_channel()


def _closed_meanwhile(endpoint: str) -> BaseException:
    """A channel that is closed cancels its calls; whoever was cancelled himself stays so."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return asyncio.CancelledError()
    return NoAnswer(f"the connection to etcd at {endpoint} was closed meanwhile")


def _credentials(address: EtcdAddress) -> grpc.ChannelCredentials:
    def read(name: str, path: str | None) -> bytes | None:
        try:
            return None if path is None else Path(path).read_bytes()
        except OSError as error:
            raise MetadataUnusable(
                f"{name} of the etcd address: cannot read {path}: {error.strerror}"
            ) from None

    return grpc.ssl_channel_credentials(
        read("cacertfile", address.cacertfile),
        read("keyfile", address.keyfile),
        read("certfile", address.certfile),
    )
