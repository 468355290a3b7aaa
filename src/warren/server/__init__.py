"""The server: where the broker meets the world, by sockets, signals, time and files."""
