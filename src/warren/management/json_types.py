"""JSON types of the HTTP API, and their encoder."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

# Any below the first level: a recursive alias makes every view a fight with variance.
Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]

_encoder: Final = msgspec.json.Encoder()


def encode(value: Json) -> bytes:
    return _encoder.encode(value)
