"""Where the broker meets the world: sockets, signals, time, files. The only users of asyncio."""
