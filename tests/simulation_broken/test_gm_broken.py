"""The simulation is worth something only if it finds what is wrong: here the machine is broken.

Each of these takes one rule away, and some life of a group must show that it was needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from gm_invariants import Violation
from gm_scenario import Scenario
from warren.replication.gm.frames import Frame, Payload
from warren.replication.gm.member import GroupMember
from warren.replication.gm.neighbour_links import LeftStream
from warren.replication.gm.publications import NOBODYS_VIEW, Origin, Publication
from warren.replication.gm.ring import Ring
from warren.replication.gm.ring_view import RingView
from warren.replication.gm.rounds import Rounds

SEEDS_MAX = 200

Patch = pytest.MonkeyPatch


def skip_the_fence(patch: Patch) -> None:
    """Everything is taken from everybody, whatever epoch or view it is of."""

    def take(self: GroupMember, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        if self.record is not None:
            self._take(frame, payloads)

    patch.setattr(GroupMember, "_frame_arrived", take)


def drop_an_alias(patch: Patch) -> None:
    """Of the dead that it is heir of, a member forgets one."""
    set_view = Rounds.set_view

    def forget(self: Rounds, view: RingView) -> None:
        set_view(self, view)
        self.aliases = frozenset(sorted(self.aliases)[1:])
        self._mine = self.aliases | {self._me}

    patch.setattr(Rounds, "set_view", forget)


def confirm_before_it_has_come_round(patch: Patch) -> None:
    """What has been sent is taken for what everybody has."""
    unsent_news = Rounds.unsent_news

    def hasty(self: Rounds, right: str) -> object:
        news = unsent_news(self, right)
        self.own.settle(self.own.last_pub)
        return news

    patch.setattr(Rounds, "unsent_news", hasty)


def send_no_catchup(patch: Patch) -> None:
    """A new neighbour is told only what comes from now on."""
    begin_stream = Ring.begin_stream

    def terse(self: Ring) -> None:
        if not self.rounds._origins[self.me.id].pending:
            begin_stream(self)

    patch.setattr(Ring, "begin_stream", terse)


def step_over_gaps(patch: Patch) -> None:
    def careless(self: LeftStream, activity: object) -> bool:
        return bool(getattr(activity, "sender", "") == self.sender.id)

    patch.setattr(LeftStream, "goes_on_with", careless)


def erase_before_the_marker_is_round(patch: Patch) -> None:
    """A newcomer takes what it was told first for all there is of the dead."""
    adopt = Rounds.adopt

    def hasty(self: Rounds) -> None:
        adopt(self)
        self._marker = 0

    patch.setattr(Rounds, "adopt", hasty)


def erase_what_is_under_way(patch: Patch) -> None:
    patch.setattr(Origin, "is_settled", property(lambda self: True))


def deliver_what_is_not_meant(patch: Patch) -> None:
    choose = Rounds._choose

    def tell_all(self: Rounds, deliveries: list, origin: str, first: int, fresh: list) -> None:
        meant = [Publication(1 << 30, p.payload) if p.view != NOBODYS_VIEW else p for p in fresh]
        choose(self, deliveries, origin, first, meant)

    patch.setattr(Rounds, "_choose", tell_all)


# Where to begin looking: some take many lives to show.
FIRST_SEEDS: Final[dict[Callable[[Patch], None], int]] = {
    skip_the_fence: 200,
    drop_an_alias: 0,
    confirm_before_it_has_come_round: 0,
    send_no_catchup: 0,
    step_over_gaps: 0,
    erase_what_is_under_way: 0,
    deliver_what_is_not_meant: 0,
    erase_before_the_marker_is_round: 900,
}


@pytest.mark.parametrize("breakage", FIRST_SEEDS, ids=lambda breakage: breakage.__name__)
def test_a_broken_machine_is_found_out(
    breakage: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    def run_all() -> None:
        first = FIRST_SEEDS[breakage]
        for seed in range(first, first + SEEDS_MAX):
            Scenario(seed).run()

    breakage(monkeypatch)
    with pytest.raises(Violation, match="seed"):
        run_all()
