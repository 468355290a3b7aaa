"""Warren: an AMQP 0-9-1 broker, compatible with RabbitMQ 3.x."""

from __future__ import annotations

from warren._pure import prefer_sources_when_asked

__version__ = "0.1.0"

prefer_sources_when_asked()
