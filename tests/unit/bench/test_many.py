"""Making many things, and a crowd of clients, with a real broker and few of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bench.making import make
from bench.many_subjects import Subject, one_warren
from bench.many_things import GROWING, crowd, make_bindings, make_queues, queue_names
from pamqp.commands import Queue

QUEUES = 30


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    with one_warren() as subject:
        subject.start()
        yield subject


def test_every_client_of_a_crowd_has_a_consumer_or_was_refused(subject: Subject) -> None:
    names = queue_names(QUEUES)
    make_queues(subject, names)
    with crowd(subject.ports, [*names, "not-there"]) as clients:
        news = clients.news()
        assert news["refused"] == 1
        assert news["lost"] == 0
        deletes = [Queue.Delete(queue=name, if_unused=True) for name in names[:1]]
        with pytest.raises(RuntimeError, match="refused"):
            make(subject.ports, deletes)


def test_things_that_were_made_are_there_after_a_stop_and_a_start(subject: Subject) -> None:
    names = queue_names(QUEUES)
    make_queues(subject, names)
    make_bindings(subject, names, 3 * QUEUES)
    assert subject.stop() > 0
    assert subject.start() > 0
    make(subject.ports, [Queue.Declare(queue=name, passive=True) for name in names])
    with pytest.raises(RuntimeError, match="NOT_FOUND"):
        make(subject.ports, [Queue.Declare(queue="not-there", passive=True)])


def test_a_share_makes_sizes_smaller_and_leaves_none_out() -> None:
    assert [growing.counts(0.01) for growing in GROWING] == [[1, 100]] * 3 + [[1, 20]]
    assert all(growing.counts(1.0) == list(growing.sizes) for growing in GROWING)
