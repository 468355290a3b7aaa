"""Sender-selected distribution: the CC and BCC headers add routing keys to a publish."""

from __future__ import annotations

from typing import Final, NamedTuple

from warren.model.errors import precondition_failed
from warren.model.fields import Table
from warren.wire.properties import Properties

_CARBON_COPY: Final = "CC"
_BLIND_CARBON_COPY: Final = "BCC"


class SelectedKeys(NamedTuple):
    keys: list[str]
    hidden: bool
    """There was a BCC, which consumers must not see."""

    def without_hidden(self, properties: Properties) -> Properties:
        if properties.headers is not None:
            properties.headers = properties.headers.without(_BLIND_CARBON_COPY)
        return properties


def sender_selected_keys(headers: Table | None) -> SelectedKeys:
    if headers is None:
        return SelectedKeys([], hidden=False)
    keys = [*_keys_of(headers, _CARBON_COPY), *_keys_of(headers, _BLIND_CARBON_COPY)]
    return SelectedKeys(keys, hidden=_BLIND_CARBON_COPY in headers)


def _keys_of(headers: Table, name: str) -> list[str]:
    field = headers.get(name)
    if field is None:
        return []
    if field.kind != "A" or not isinstance(field.value, tuple):
        raise precondition_failed(
            f'invalid message: {{unacceptable_type_in_header,"{name}",{field.type_name}}}'
        )
    keys = []
    for item in field.value:
        if not hasattr(item, "kind") or item.kind != "S":
            continue
        keys.append(item.value.decode(errors="replace"))
    return keys
