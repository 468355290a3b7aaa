"""Reply texts have to fit into a short string."""

from __future__ import annotations

from warren.model.errors import not_found
from warren.model.records import describe_queue


def test_a_text_that_fits_is_left_alone() -> None:
    error = not_found("no " + describe_queue("q", "/"))
    assert error.reply_text == "NOT_FOUND - no queue 'q' in vhost '/'"


def test_a_long_name_makes_a_text_of_252_bytes_and_dots() -> None:
    text = not_found("no " + describe_queue("q" * 250, "/")).reply_text
    assert text == "NOT_FOUND - no queue '" + "q" * 230 + "..."
    assert len(text.encode()) == 255


def test_a_character_cut_in_half_is_left_out() -> None:
    text = not_found("no " + describe_queue("\u00e9" * 125, "/")).reply_text
    assert text.endswith("\u00e9...")
    assert len(text.encode()) <= 255
