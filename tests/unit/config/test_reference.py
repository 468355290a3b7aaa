from __future__ import annotations

from pathlib import Path

from warren.config.file import parse_config
from warren.config.pending import PENDING, REFUSED
from warren.config.reference import ERLANG, reference
from warren.config.settings import settings

PAGE = Path(__file__).parents[3] / "docs" / "CONFIGURATION.md"


def test_the_page_is_what_the_declarations_say() -> None:
    assert PAGE.read_text() == reference(), "warren settings --markdown > docs/CONFIGURATION.md"


def test_every_key_is_on_the_page_with_what_it_means() -> None:
    page = reference()
    for setting in settings().values():
        assert f"`{setting.key}" in page
        assert setting.meaning in page
    assert all(f"- `{key}`" in page for key in PENDING)
    assert all(
        f"| `{key}` | " in page and refusal.remedy in page for key, refusal in REFUSED.items()
    )
    assert not any(f"- `{key}`" in page for key in REFUSED)


def test_erlang_terms_on_the_page_say_what_the_line_beside_them_says() -> None:
    for term, line in ERLANG:
        rest = term.replace(", ...", "")
        said = parse_config(f"[{{rabbit, [{rest}]}}].", "a.config").said
        key, value = line.removesuffix(" ...").split(" = ")
        (first, expected), *_ = parse_config(f"{key} = {value}", "a.conf").said.items()
        has_more = line.endswith("...")
        assert (said[first] == expected) or (has_more and first in said), term


def test_every_meaning_can_be_read_without_the_row_above_it() -> None:
    leaning = ("the same", "its ", "and ", "of ", "such ", "which ", "what ")
    assert [s.key for s in settings().values() if s.meaning.startswith(leaning)] == []


def test_secrets_have_no_default_worth_hiding_but_the_known_one() -> None:
    secret = [s.key for s in settings().values() if s.is_secret]
    assert secret == [
        "ssl_options.password",
        "management.ssl.password",
        "auth_ldap.dn_lookup_bind.password",
        "auth_ldap.other_bind.password",
        "management.oauth_client_secret",
        "default_pass",
        "warren.cluster_links.ssl_options.password",
    ]
