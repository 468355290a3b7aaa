"""What nodes tell each other of their connections and channels, and what comes of it."""

from __future__ import annotations

from collections import Counter

from warren.cluster.link.control import Counted
from warren.cluster.tallies import COUNTS_PER_NEWS_MAX, Counts, Scope, Tallies

USER = Scope.USER_CONNECTIONS
OTHER = Scope.USER_CHANNELS


def told(count: int, is_whole: bool = False) -> Counted:
    return Counted(is_whole, ((USER.value, "u", count),))


def test_what_all_others_have_is_summed_up_by_scope_and_name() -> None:
    tallies = Tallies(Counter({(USER.value, "u"): 100}))
    tallies.heard("n2", told(3))
    tallies.heard("n3", told(4))
    assert tallies.elsewhere(USER, "u") == 7, "our own are not elsewhere"
    assert tallies.elsewhere(USER, "v") == tallies.elsewhere(OTHER, "u") == 0


def test_news_replace_what_was_told_of_the_same() -> None:
    tallies = Tallies(Counter())
    tallies.heard("n2", told(3))
    tallies.heard("n2", told(2))
    assert tallies.elsewhere(USER, "u") == 2
    tallies.heard("n2", told(0))
    assert tallies.elsewhere(USER, "u") == 0


def test_the_whole_replaces_everything_a_node_has_told() -> None:
    tallies = Tallies(Counter())
    tallies.heard("n2", Counted(False, ((OTHER.value, "gone", 5),)))
    tallies.heard("n2", told(1, is_whole=True))
    assert (tallies.elsewhere(OTHER, "gone"), tallies.elsewhere(USER, "u")) == (0, 1)


def test_connections_of_a_node_that_has_died_are_not_counted_any_more() -> None:
    tallies = Tallies(Counter())
    tallies.heard("n2", told(3))
    tallies.heard("n3", told(1))
    tallies.forget("n2")
    assert tallies.elsewhere(USER, "u") == 1


def test_only_what_has_changed_is_told_and_only_once() -> None:
    own: Counts = Counter({(USER.value, "u"): 1, (USER.value, "v"): 1})
    tallies = Tallies(own)
    assert tallies.changed(USER, "u"), "the first change since the last news"
    own[USER.value, "u"] = 2
    assert not tallies.changed(USER, "u")
    assert tallies.news() == [told(2)]
    assert tallies.news() == []
    del own[USER.value, "u"]
    assert tallies.changed(USER, "u")
    assert tallies.news() == [told(0)]


def test_very_many_are_told_in_pieces_that_fit_in_a_frame() -> None:
    own = Counter({(USER.value, f"{n}" * 50): n for n in range(1, 2 * COUNTS_PER_NEWS_MAX + 1)})
    pieces = Tallies(own).whole()
    assert [len(piece.counts) for piece in pieces] == [0, COUNTS_PER_NEWS_MAX, COUNTS_PER_NEWS_MAX]
    listener = Tallies(Counter())
    for piece in pieces:
        listener.heard("n2", piece)
    assert all(listener.elsewhere(USER, name) == count for (_, name), count in own.items())
