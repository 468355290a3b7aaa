"""The story of a mirrored queue: the last things that happened to it, with the time of each."""

from __future__ import annotations

from warren.cluster.story import ENTRIES_PER_QUEUE_MAX, QUEUES_MAX, Stories


def test_a_story_tells_what_happened_and_when() -> None:
    times = iter([5, 9])
    stories = Stories(lambda: next(times))
    stories.note(("/", "q"), "leads")
    stories.note(("/", "q"), "expels", "b/1/1", 7)
    assert [str(entry) for entry in stories.of(("/", "q"))] == [
        "5 ms: leads",
        "9 ms: expels b/1/1 7",
    ]
    assert stories.of(("/", "other")) == []


def test_a_long_story_forgets_its_beginning() -> None:
    stories = Stories(lambda: 0)
    for number in range(ENTRIES_PER_QUEUE_MAX + 3):
        stories.note(("/", "q"), str(number))
    told = stories.of(("/", "q"))
    assert (told[0].what, len(told)) == ("3", ENTRIES_PER_QUEUE_MAX)


def test_the_queue_that_was_least_recently_heard_of_goes_first() -> None:
    stories = Stories(lambda: 0)
    for number in range(QUEUES_MAX):
        stories.note(("/", str(number)), "begins")
    stories.note(("/", "0"), "goes on")
    stories.note(("/", "new"), "begins")
    assert stories.of(("/", "1")) == []
    assert len(stories.of(("/", "0"))) == 2
    assert len(stories.of(("/", "new"))) == 1
