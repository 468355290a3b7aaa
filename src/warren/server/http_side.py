"""All that a node answers over HTTP: the API, the API over TLS, and a port for Prometheus."""

from __future__ import annotations

from starlette.types import ASGIApp

from warren.config.settings import Config
from warren.config.values import Endpoint
from warren.server.http import HttpServer, metrics_only
from warren.server.tls.acceptor import TlsSide


class HttpSide:
    def __init__(self, config: Config, tls: TlsSide | None) -> None:
        self._api = _servers(config, tls)
        self._metrics = _metrics_server(config)
        self.endpoints: dict[str, Endpoint] = {}
        """Of the API by scheme; http first, if it is there."""
        self.metrics_endpoint: Endpoint | None = None

    def bind(self) -> None:
        """Raises CannotListenError."""
        for scheme, server in self._api.items():
            server.bind()
            self.endpoints[scheme] = server.endpoint
        if self._metrics is not None:
            self._metrics.bind()
            self.metrics_endpoint = self._metrics.endpoint

    async def start(self, application: ASGIApp) -> None:
        for server in self._api.values():
            await server.start(application)
        if self._metrics is not None:
            await self._metrics.start(metrics_only(application))

    async def stop(self) -> None:
        """Also right when it was not started, or has stopped already."""
        for server in (*self._api.values(), self._metrics):
            if server is not None:
                await server.stop()


def _servers(config: Config, tls: TlsSide | None) -> dict[str, HttpServer]:
    servers, over_tls = {}, config.management_tls
    if config.has_plain_http:
        endpoint = Endpoint(config.http_ip, config.http_port)
        servers["http"] = HttpServer(endpoint, proxies=config.http_proxies)
    if over_tls.port is not None:
        endpoint = Endpoint(over_tls.ip or config.http_ip, over_tls.port)
        servers["https"] = HttpServer(
            endpoint, "HTTPS", "management.ssl.port", tls, config.http_proxies
        )
    return servers


def _metrics_server(config: Config) -> HttpServer | None:
    if config.prometheus_port is None:
        return None
    endpoint = Endpoint(config.prometheus_ip or config.http_ip, config.prometheus_port)
    return HttpServer(endpoint, "Prometheus", "prometheus.tcp.port")
