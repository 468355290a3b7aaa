"""What every test here may ask for: a broker, connections to it, names of its own."""

from __future__ import annotations

from live_broker import broker, channel, connect, names, own_broker, raw

__all__ = ["broker", "channel", "connect", "names", "own_broker", "raw"]
