"""Names of directories: RabbitMQ's."""

from __future__ import annotations

from pathlib import Path

from warren.storage.disk.layout import (
    IndexLayout,
    decode_name,
    encode_name,
    numbered,
    vhost_directory,
)


def test_the_default_vhost_has_the_directory_that_rabbitmq_gives_it() -> None:
    directory = vhost_directory(Path("data"), "/")
    assert directory == Path("data/msg_stores/vhosts/628WB79CIFDYO9LJI6DKMI09L")


def test_queues_of_one_name_in_two_vhosts_have_two_directories() -> None:
    layout, other = IndexLayout(Path("d"), "/"), IndexLayout(Path("d"), "other")
    assert layout.queue_directory("q") != other.queue_directory("q")
    assert layout.queue_directory("q").parent == Path("d/queues")


def test_priorities_of_a_queue_have_directories_of_their_own() -> None:
    layout = IndexLayout(Path("d"), "/")
    names = {layout.queue_directory(f"q\0{priority}") for priority in range(10)}
    assert len(names) == 10


def test_any_name_survives() -> None:
    for name in ("", "ü", "a\0b", "x" * 255, "\udcff"):
        assert decode_name(encode_name(name)) == name


def test_only_numbered_files_are_ours() -> None:
    names = ["10.idx", "2.idx", "x.idx", "1.jif", ".queue_name", "².idx", "3.idx.draft"]
    assert numbered(names, ".idx") == [2, 10]
