"""Sessions: only those that this broker began, and only as long as they last."""

from __future__ import annotations

from dataclasses import replace

from warren.auth.users import User
from warren.management.page.signing import SESSION_S, SESSION_S_MAX, Signer

USER = User("paul", "a hash")


class Now:
    def __init__(self) -> None:
        self.s = 1_000_000.0

    def __call__(self) -> float:
        return self.s


def test_a_session_is_read_as_it_was_written() -> None:
    signer = Signer(b"key", Now())
    session = signer.begin(USER)
    assert signer.read(signer.write(session)) == session


def test_a_session_is_over_when_its_time_is() -> None:
    now = Now()
    signer = Signer(b"key", now)
    cookie = signer.write(signer.begin(USER))
    now.s += SESSION_S - 1
    assert signer.read(cookie) is not None
    now.s += 1
    assert signer.read(cookie) is None


def test_who_is_still_there_in_the_second_half_gets_another_one() -> None:
    now = Now()
    signer = Signer(b"key", now)
    session = signer.begin(USER)
    assert signer.renewed(session) is None
    now.s += SESSION_S / 2 + 1
    renewed = signer.renewed(session)
    assert renewed is not None
    assert renewed.expires_at_s > session.expires_at_s
    assert signer.form_token(renewed) == signer.form_token(session), "open forms stay valid"


def test_a_session_that_is_renewed_again_and_again_ends_all_the_same() -> None:
    now = Now()
    signer = Signer(b"key", now)
    began_s, session = now.s, signer.begin(USER)
    while signer.read(signer.write(session)) is not None:
        now.s += 600
        session = signer.renewed(session) or session
    assert now.s - began_s == SESSION_S_MAX


def test_what_was_changed_or_signed_with_another_key_is_nothing() -> None:
    signer = Signer(b"key", Now())
    cookie = signer.write(signer.begin(USER))
    forged = Signer(b"other key", Now()).write(signer.begin(USER))
    data, _, digest = cookie.partition(".")
    flipped = ("B" if digest[-1] == "a" else "a") + digest[:-1]
    for wrong in ("", ".", "x", forged, f"{data}.{flipped}", f"{data[:-4]}.{digest}", "é.é"):
        assert signer.read(wrong) is None, wrong


def test_what_is_signed_for_one_purpose_is_nothing_for_another() -> None:
    signer = Signer(b"key", Now())
    session = signer.verified("session", signer.write(signer.begin(USER)))
    assert session is not None
    assert signer.read(signer.sign("note", session)) is None


def test_a_session_is_not_of_a_user_whose_password_was_changed() -> None:
    signer = Signer(b"key", Now())
    session = signer.begin(USER)
    assert signer.is_of(session, USER)
    assert not signer.is_of(session, replace(USER, password_hash="another"))


def test_brokers_on_one_machine_have_cookies_of_different_names() -> None:
    assert Signer(b"one", Now()).cookie_name != Signer(b"other", Now()).cookie_name
    assert Signer(b"one", Now()).cookie_name == Signer(b"one", Now()).cookie_name
