from __future__ import annotations

import pytest

from warren.metadata.etcd_address import BadEtcdAddress, EtcdAddress, parse_etcd_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("etcd://h:1", EtcdAddress(("h:1",))),
        ("etcd://h", EtcdAddress(("h:2379",))),
        ("etcd://h:1,g:2/", EtcdAddress(("h:1", "g:2"))),
        ("etcd://[::1]:1", EtcdAddress(("[::1]:1",))),
        ("etcd://[::1]", EtcdAddress(("[::1]:2379",))),
        ("etcd://u:p%40ss@h:1", EtcdAddress(("h:1",), "u", "p@ss")),
        (
            "etcds://h:1?cacertfile=a&certfile=b&keyfile=c",
            EtcdAddress(("h:1",), None, None, True, "a", "b", "c"),
        ),
    ],
)
def test_an_address_is_read(text: str, expected: EtcdAddress) -> None:
    assert parse_etcd_address(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sqlite", "got 'sqlite'"),
        ("etcd://", "got ''"),
        ("etcd://h:1,,g:2", "got ''"),
        ("etcd://h:x", "got 'h:x'"),
        ("etcd://h:70000", "got 'h:70000'"),
        ("etcd://u@h:1", "USER:PASSWORD"),
        ("etcd://h:1?cacertfile=a", "etcds://"),
        ("etcds://h:1?cafile=a", "unknown 'cafile'"),
        ("etcds://h:1?certfile=a", "go together"),
        ("etcd://" + ",".join(["h"] * 65), "at most 64"),
    ],
)
def test_what_cannot_be_an_address_is_said(text: str, complaint: str) -> None:
    with pytest.raises(BadEtcdAddress) as refusal:
        parse_etcd_address(text)
    assert complaint in str(refusal.value)


def test_the_password_is_never_shown() -> None:
    address = parse_etcd_address("etcd://u:secret@h:1")
    assert "secret" not in f"{address} {address!r}"
