"""Group records in states that production reaches by other ways."""

from __future__ import annotations

from msgspec.structs import replace

from warren.mirror.group_record import GroupRecord


def drop_from_insync(record: GroupRecord, leader: str, member_id: str) -> GroupRecord:
    """Return the record with a live member that is not in sync."""
    assert record.leader == leader != member_id, "only a leader's mirror can be out of sync"
    insync = tuple(i for i in record.insync if i != member_id)
    return replace(record, view=record.view + 1, insync=insync)
