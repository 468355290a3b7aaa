"""Places of a lake: paths, URLs, and credentials, which come from the environment alone."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from pyarrow import fs

from broker_process import free_port
from lake_world import SCHEMA
from pyspark_warren.errors import InvalidOption
from pyspark_warren.lake import MESSAGES
from pyspark_warren.lake.opening import LakeFormat
from pyspark_warren.lake.storage import LakeUnavailable, Storage


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("lake", os.path.abspath("lake")),
        ("/a/../lake/", "/lake"),
        ("file:///lake", "/lake"),
        ("s3://bucket/lake/", "s3://bucket/lake"),
        ("s3a://bucket/lake", "s3://bucket/lake"),
    ],
)
def test_a_place_has_one_name(text: str, url: str) -> None:
    assert Storage.of(text).url == url
    assert Storage.of(text).below("messages").url == f"{url}/messages"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s3://key:secret@bucket/lake", "AWS_SECRET_ACCESS_KEY"),
        ("s3://key@bucket/lake", "with credentials"),
        ("ftp://host/lake", "ftp:// is none of a path"),
    ],
)
def test_credentials_and_unknown_places_are_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidOption, match=said) as raised:
        Storage.of(text)
    assert "secret@" not in str(raised.value)


def test_credentials_are_in_nothing_that_is_sent_to_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    storage = Storage.of("s3://bucket/lake")
    options = storage.delta_options()
    assert options == {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true"}
    sent = pickle.dumps(storage) + repr((storage, options)).encode()
    assert b"the-key" not in sent
    assert b"the-secret" not in sent
    filesystem, root = storage.open()
    assert isinstance(filesystem, fs.S3FileSystem)
    assert root == "bucket/lake"


def test_a_place_that_cannot_be_used_is_named_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file, and no directory")
    lake = str(tmp_path / "lake" / "below")
    with pytest.raises(LakeUnavailable, match=f"the lake at {lake} cannot be used: ") as raised:
        LakeFormat(Storage.of(lake)).open(MESSAGES, SCHEMA)
    assert "\n" not in str(raised.value)


def test_a_store_that_does_not_answer_is_named_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(LakeUnavailable, match="the lake at s3://bucket/lake cannot be used") as e:
        LakeFormat(Storage.of("s3://bucket/lake")).open(MESSAGES, SCHEMA)
    assert "the-secret" not in str(e.value)
