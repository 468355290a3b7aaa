"""Whether a data directory still belongs to the cluster that it is started in."""

from __future__ import annotations

import pytest

from warren.cluster.members import Badge, Member, NoLongerMember, require_membership

BADGE = Badge("default", "n1@here", "id-1")
MEMBER = Member("id-1", 1_700_000_000)


@pytest.mark.parametrize("badge", [None, BADGE])
def test_a_member_and_a_new_directory_are_welcome(badge: Badge | None) -> None:
    require_membership(badge, "default", "n1@here", MEMBER)


def test_a_node_that_nobody_has_heard_of_is_welcome_if_its_directory_is_new() -> None:
    require_membership(None, "default", "n1@here", None)


@pytest.mark.parametrize(
    ("cluster", "member", "says"),
    [
        ("other", MEMBER, "node n1@here of cluster 'default', and this is cluster 'other'"),
        ("default", None, "is not a member of cluster 'default' any more"),
        ("default", Member("id-2", 0), "another one has its name now"),
    ],
)
def test_a_directory_that_belongs_elsewhere_is_refused(
    cluster: str, member: Member | None, says: str
) -> None:
    with pytest.raises(NoLongerMember, match=says):
        require_membership(BADGE, cluster, "n1@here", member)
