"""Values of a configuration file, and a reader for each kind of them.

A reader raises ValueError with what it expects, in words that can follow "heartbeat: ".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")
Reader: TypeAlias = Callable[[str], T]

PORT_MAX: Final = 65535
_SWITCHES: Final = {
    "true": True,
    "on": True,
    "yes": True,
    "false": False,
    "off": False,
    "no": False,
}
_SIZE: Final = re.compile(r"(\d+)\s*([A-Za-z]*)")
_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}


class Endpoint(NamedTuple):
    """Where to listen. No host means every address of this machine."""

    host: str | None
    port: int

    def __str__(self) -> str:
        if self.host is None:
            return f"*:{self.port}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def text(value: str) -> str:
    if not value:
        raise ValueError("expected a text, got nothing")
    return value


def switch(value: str) -> bool:
    if value.lower() not in _SWITCHES:
        raise ValueError(f"expected true or false, got '{value}'")
    return _SWITCHES[value.lower()]


def whole_number(lowest: int, highest: int) -> Reader[int]:
    def read(value: str) -> int:
        if not re.fullmatch(r"-?\d+", value) or not lowest <= int(value) <= highest:
            raise ValueError(f"expected a whole number from {lowest} to {highest}, got '{value}'")
        return int(value)

    return read


def fraction(lowest: float, highest: float) -> Reader[float]:
    def read(value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not lowest <= number <= highest:
            raise ValueError(f"expected a number from {lowest} to {highest}, got '{value}'")
        return number

    return read


def network(value: str) -> str:
    """Read an address, or a network as in 10.0.0.0/8."""
    try:
        if "/" in value:
            return str(ipaddress.ip_network(value, strict=False))
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ValueError(f"expected an address or a network, got '{value}'") from None


def one_of(*choices: str) -> Reader[str]:
    def read(value: str) -> str:
        if value not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}, got '{value}'")
        return value

    return read


def byte_size(value: str) -> int:
    """RabbitMQ's information units: 2GB counts in thousands, 2GiB and 2G in 1024s."""
    match = _SIZE.fullmatch(value)
    number, unit = (match[1], match[2].lower()) if match else ("", "?")
    if unit in {"", "b"} and number:
        return int(number)
    if unit[:1] not in _POWERS or unit[1:] not in {"", "b", "ib"}:
        raise ValueError(f"expected bytes as in 4096, 512MiB or 2GB, got '{value}'")
    thousand = 1000 if unit[1:] == "b" else 1024
    return int(number) * int(thousand ** _POWERS[unit[0]])


def size_within(lowest: int, highest: int) -> Reader[int]:
    def read(value: str) -> int:
        size = byte_size(value)
        if not lowest <= size <= highest:
            raise ValueError(f"expected a size from {lowest} to {highest} bytes, got '{value}'")
        return size

    return read


def endpoint(value: str) -> Endpoint:
    """A port alone, or an address and a port: 5672, 10.0.0.1:5672, [::1]:5672."""
    host, separator, port = value.rpartition(":")
    if not re.fullmatch(r"\d+", port) or int(port) > PORT_MAX or (separator and not host):
        raise ValueError(f"expected PORT or ADDRESS:PORT, got '{value}'")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"write an IPv6 address in brackets, as in [::1]:5672; got '{value}'")
    return Endpoint(host or None, int(port))
