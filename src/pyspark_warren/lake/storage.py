"""Storage of a lake: a directory, or a prefix in an object store, for pyarrow and for delta-rs.

Spark's tasks write files by pyarrow, the driver commits them by delta-rs, and both find the store
by this one URL. Credentials are no part of it: each process takes them from its own environment
(`AWS_ACCESS_KEY_ID` and so on, a role, a file of the SDK), so they get into no plan, log,
checkpoint or table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from pyarrow import fs

from pyspark_warren.errors import InvalidOption, WarrenError

_URL: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")
_S3: Final = frozenset({"s3", "s3a"})
# Tried in the tests are directories and S3; the others are what both libraries say they know.
_SCHEMES: Final = frozenset({"file", "gs", "abfss", "abfs"}) | _S3
# A name in a directory may have so many bytes on the file systems in use.
NAME_BYTES_MAX: Final = 255


class LakeUnavailable(WarrenError):
    """The place of a lake cannot be read or written."""


@dataclass(frozen=True, slots=True)
class Storage:
    """One place, which may be pickled to Spark's workers."""

    url: str
    """An absolute path, or a URL without credentials."""

    @classmethod
    def of(cls, text: str) -> Storage:
        """Return the storage that a user names. Raises InvalidOption."""
        if not _URL.match(text):
            return cls(os.path.abspath(text))
        parts = urlsplit(text)
        if parts.scheme not in _SCHEMES:
            raise InvalidOption(
                f"option lake: {parts.scheme}:// is none of a path, {', '.join(sorted(_SCHEMES))}"
            )
        if parts.password is not None or (parts.username and parts.scheme in _S3):
            raise InvalidOption(
                "option lake: a URL with credentials would be shown in plans and logs; set "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what your store has, instead"
            )
        if parts.scheme == "file":
            return cls(os.path.abspath(parts.path))
        return cls(re.sub("^s3a:", "s3:", text).rstrip("/"))

    @property
    def is_local(self) -> bool:
        return not _URL.match(self.url)

    def below(self, name: str) -> Storage:
        return Storage(f"{self.url}/{name}")

    def open(self) -> tuple[fs.FileSystem, str]:
        """Return the file system, and the root as a path in it."""
        if self.is_local:
            return fs.LocalFileSystem(), self.url
        parts = urlsplit(self.url)
        if parts.scheme not in _S3:
            return fs.FileSystem.from_uri(self.url)  # type: ignore[no-any-return]
        return fs.S3FileSystem(**_s3_settings()), f"{parts.netloc}{parts.path}"

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise what file systems and delta-rs say, which may be pages, as LakeUnavailable."""
        try:
            yield
        except Exception as error:
            # delta-rs is not loaded where only tasks run, so its errors are told by their name.
            names = {kind.__name__ for kind in type(error).__mro__}
            if not names & {"OSError", "DeltaError"}:
                raise
            first = str(error).strip().partition("\n")[0]
            raise LakeUnavailable(
                f"the lake at {self.url} cannot be used: {first or type(error).__name__}"
            ) from error

    def delta_options(self) -> dict[str, str]:
        """Settings of delta-rs that are not in the environment already; none is a secret."""
        if urlsplit(self.url).scheme not in _S3 or self.is_local:
            return {}
        endpoint = _endpoint()
        if endpoint is None:
            return {}
        is_plain = endpoint.startswith("http://")
        return {"AWS_ENDPOINT_URL": endpoint, **({"AWS_ALLOW_HTTP": "true"} if is_plain else {})}


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def _s3_settings() -> dict[str, Any]:
    settings: dict[str, Any] = {}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region:
        settings["region"] = region
    endpoint = _endpoint()
    if endpoint:
        parts = urlsplit(endpoint)
        settings |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
    return settings
