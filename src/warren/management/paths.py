"""Addresses: from the path of a request to what answers there.

Names may hold any character, slashes included, so paths are split before they are decoded: `%2F` is
a virtual host.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar
from urllib.parse import unquote

from starlette.requests import Request

T = TypeVar("T")

_PARAMETER: Final = "{}"


def path_parts(request: Request, prefix: str = "/") -> list[str]:
    """What stands between the slashes behind the prefix, decoded. Raises UnicodeDecodeError."""
    raw = request.scope.get("raw_path") or request.url.path.encode()
    path = raw.decode("latin-1").removeprefix(prefix).removesuffix("/")
    return [unquote(part, errors="strict") for part in path.split("/")]


class PathTree(Generic[T]):
    """Things by the parts of their paths; a part that is named goes before one that is open.

    A part of a path is open if it is written `{name}`: what stands there is found by that name.
    """

    def __init__(self) -> None:
        self._thing: tuple[T, list[str]] | None = None
        self._branches: dict[str, PathTree[T]] = {}

    def add(self, path: str, thing: T) -> None:
        parts = path.strip("/").split("/")
        names = [part[1:-1] for part in parts if part.startswith("{")]
        branch = self
        for part in parts:
            key = _PARAMETER if part.startswith("{") else part
            branch = branch._branches.setdefault(key, PathTree())
        assert branch._thing is None, f"{path} is there already"
        branch._thing = thing, names

    def find(self, parts: list[str]) -> tuple[T, dict[str, str]] | None:
        found = self._find(parts)
        if found is None:
            return None
        (thing, names), values = found
        return thing, dict(zip(names, values, strict=True))

    def _find(self, parts: list[str]) -> tuple[tuple[T, list[str]], list[str]] | None:
        if not parts:
            return None if self._thing is None else (self._thing, [])
        part, *rest = parts
        named = self._branches.get(part) if part != _PARAMETER else None
        if named is not None and (found := named._find(rest)) is not None:
            return found
        open_branch = self._branches.get(_PARAMETER)
        if open_branch is None or (found := open_branch._find(rest)) is None:
            return None
        thing, values = found
        return thing, [part, *values]
