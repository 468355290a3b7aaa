"""Bytes to frames, methods, tables and back. Knows no sockets and no broker."""
