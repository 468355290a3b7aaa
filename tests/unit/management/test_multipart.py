"""Multipart forms: fields by name, files as they are, and no more than so many."""

from __future__ import annotations

from warren.management.multipart import FIELDS_MAX, form_fields

TYPE = "multipart/form-data; boundary=edge"


def part(head: str, content: bytes) -> bytes:
    return f"--edge\r\n{head}\r\n\r\n".encode() + content + b"\r\n"


def test_fields_and_files_come_out_as_they_went_in() -> None:
    file = b"\x00\r\n--edg\r\n\r\n\xff"
    raw = (
        part('Content-Disposition: form-data; name="note"', b"text")
        + part(
            'content-disposition: form-data; name="file"; filename="a;b.json"\r\n'
            "Content-Type: application/json",
            file,
        )
        + b"--edge--\r\n"
    )
    assert form_fields(TYPE, raw) == {"note": b"text", "file": file}
    assert form_fields('multipart/form-data; boundary="edge"', raw)["file"] == file


def test_the_last_of_two_fields_counts() -> None:
    head = 'Content-Disposition: form-data; name="a"'
    assert form_fields(TYPE, part(head, b"1") + part(head, b"2") + b"--edge--") == {"a": b"2"}


def test_what_is_no_form_has_no_fields() -> None:
    assert form_fields(TYPE, b"") == {}
    assert form_fields(TYPE, b"\r\n" * 1000) == {}
    assert form_fields("multipart/form-data", part("", b"")) == {}
    assert form_fields(TYPE, b"--edge\r\nContent-Disposition: form-data\r\n\r\nx\r\n--edge--") == {}


def test_no_more_fields_are_read_than_a_form_has() -> None:
    raw = b"".join(
        part(f'Content-Disposition: form-data; name="{n}"', b"v") for n in range(FIELDS_MAX + 50)
    )
    fields = form_fields(TYPE, raw)
    assert len(fields) == FIELDS_MAX
    assert set(fields.values()) == {b"v"}
