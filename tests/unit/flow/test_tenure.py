"""Acting while a session is certain, by a clock that the test moves."""

from __future__ import annotations

from warren.flow.tenure import Tenure, unlimited


class Hands:
    """A clock, and a follower that writes down what it hears."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.heard: list[str] = []

    def __call__(self) -> float:
        return self.now_s

    def frozen(self) -> None:
        self.heard.append("frozen")

    def thawed(self) -> None:
        self.heard.append("thawed")


def started(hands: Hands, until_s: float = 105.0) -> Tenure:
    tenure = Tenure(hands)
    tenure.extend(until_s)
    tenure.followers.append(hands)
    return tenure


def test_nobody_acts_before_the_first_proof() -> None:
    tenure = Tenure(Hands())
    assert tenure.is_frozen
    assert not tenure.holds()


def test_it_holds_until_the_moment_it_ends_and_not_a_moment_longer() -> None:
    hands = Hands()
    tenure = started(hands)
    hands.now_s = 104.999
    assert tenure.holds()
    hands.now_s = 105.0
    assert not tenure.holds()


def test_who_wakes_up_too_late_freezes_everything_before_it_hears_no() -> None:
    """The process slept: no timer has run, the first question is that of an output."""
    hands = Hands()
    tenure = started(hands)
    hands.now_s = 5_000.0
    assert not tenure.is_frozen, "nothing has happened yet"
    assert not tenure.holds()
    assert hands.heard == ["frozen"]


def test_time_alone_never_thaws_and_a_proof_does() -> None:
    hands = Hands()
    tenure = started(hands)
    tenure.freeze()
    assert not tenure.holds()
    hands.now_s = 101.0
    assert not tenure.holds(), "although `until` is not reached"
    tenure.extend(106.0)
    assert tenure.holds()
    assert hands.heard == ["frozen", "thawed"]


def test_a_proof_that_comes_too_late_proves_nothing() -> None:
    """The answer was on its way for longer than the session is certain to last."""
    hands = Hands()
    tenure = started(hands)
    hands.now_s = 107.0
    assert not tenure.holds()
    tenure.extend(106.5)
    assert not tenure.holds()
    assert hands.heard == ["frozen"]


def test_freezing_twice_is_told_once_and_so_is_thawing() -> None:
    hands = Hands()
    tenure = started(hands)
    tenure.freeze()
    tenure.freeze()
    tenure.extend(106.0)
    tenure.extend(107.0)
    assert hands.heard == ["frozen", "thawed"]


def test_a_node_alone_acts_for_ever() -> None:
    assert unlimited().holds()
