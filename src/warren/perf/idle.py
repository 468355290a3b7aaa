"""Opens connections and holds them, to see what an idle one costs."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from warren.client.errors import ConnectionLost
from warren.perf.client import Client
from warren.perf.options import Options
from warren.perf.process import ProcessMeter

HOLD_SECONDS: Final = 3.0


async def hold_connections(options: Options) -> dict[str, Any]:
    meter = ProcessMeter([int(pid) for pid in options.broker_pid.split(",") if pid])
    before_kb = meter.sample()
    clients: list[Client] = []
    errors: list[str] = []
    left = iter(range(options.idle_conns))

    async def open_some() -> None:
        for _ in left:
            client = Client(options)
            try:
                await client.open((options.host, options.port), options.idle_channel)
                clients.append(client)
            except ConnectionLost as lost:
                errors.append(str(lost))

    began = time.monotonic()
    await asyncio.gather(*(open_some() for _ in range(max(options.open_threads, 1))))
    open_seconds = time.monotonic() - began
    open_cpu = meter.cpu_seconds()
    await asyncio.sleep(options.time or HOLD_SECONDS)
    after_kb, idle_cpu = meter.sample(), meter.cpu_seconds() - open_cpu
    began = time.monotonic()
    await asyncio.gather(*(client.close() for client in clients))
    close_seconds = time.monotonic() - began
    count = len(clients)
    return {
        "idle_connections": count,
        "failed": len(errors),
        "open_seconds": round(open_seconds, 3),
        "open_rate": round(count / open_seconds, 1),
        "close_rate": round(count / close_seconds, 1) if count else 0.0,
        "broker_rss_before_kb": before_kb,
        "broker_rss_after_kb": after_kb,
        "rss_per_conn_kb": round((after_kb - before_kb) / count, 1) if count else 0.0,
        "broker_cpu_open_s": round(open_cpu, 2),
        "broker_cpu_idle_s": round(idle_cpu, 2),
        "errors": errors[:20],
    }
