"""Chain of auth backends: who is asked, in which order, and what is remembered of the answers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from manual_clock import ManualClock
from warren.auth.access import AccessControl
from warren.auth.authorization import ANSWER_MS_MAX, ANSWERS_PER_LOGIN_MAX, Authorization
from warren.auth.backends import Attempt, BackendError, Identity
from warren.auth.cache_backend import CacheBackend
from warren.auth.chain import BackendChain, Link, Step
from warren.auth.internal_backend import InternalBackend
from warren.auth.questions import (
    PERMITTED,
    REFUSED,
    AnswerPending,
    Question,
    TooManyQuestions,
    Verdict,
    once_answered,
)
from warren.auth.users import User
from warren.model.errors import LoginRefused, SoftError

WRITE = Question("exchange", "/", "x", "write")


@dataclass
class Scripted:
    """A backend that says what it is told, and counts what it is asked."""

    name: str
    users: dict[str, bytes] = field(default_factory=dict)
    verdict: Verdict = PERMITTED
    is_down: bool = False
    asked: list[object] = field(default_factory=list)

    async def log_in(self, attempt: Attempt) -> Identity:
        self.asked.append(attempt.name)
        if self.is_down:
            raise BackendError("it is down")
        if self.users.get(attempt.name) != attempt.password:
            raise LoginRefused(f"{self.name} does not know {attempt.name}")
        return Identity(attempt.name, (f"tag of {self.name}",))

    async def authorize(self, attempt: Attempt) -> Identity:
        return await self.log_in(attempt)

    def known(self, who: Identity, question: Question) -> Verdict | None:
        return None

    async def ask(self, who: Identity, question: Question) -> Verdict:
        self.asked.append(question)
        return Verdict(False, "it is down") if self.is_down else self.verdict

    async def renew(self, who: Identity, secret: bytes) -> Identity:
        return who


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def first() -> Scripted:
    return Scripted("first", {"ann": b"a"})


@pytest.fixture
def second() -> Scripted:
    return Scripted("second", {"ann": b"b", "bob": b"b"})


def chain_of(clock: ManualClock, *links: Link) -> BackendChain:
    return BackendChain(links, AccessControl(), clock)


async def test_the_first_backend_that_accepts_ends_the_search(
    clock: ManualClock, first: Scripted, second: Scripted
) -> None:
    chain = chain_of(clock, Link(first), Link(second))
    user = await chain.log_in(Attempt("ann", b"a"))
    assert (user.name, user.tags, user.origin) == ("ann", ("tag of first",), "first")
    assert second.asked == []


async def test_a_refusal_and_a_failure_lead_to_the_next(
    clock: ManualClock, first: Scripted, second: Scripted
) -> None:
    chain = chain_of(clock, Link(first), Link(second))
    assert (await chain.log_in(Attempt("ann", b"b"))).origin == "second"
    first.is_down = True
    assert (await chain.log_in(Attempt("bob", b"b"))).origin == "second"


async def test_nobody_is_let_in_by_backends_that_are_down(
    clock: ManualClock, first: Scripted
) -> None:
    first.is_down = True
    with pytest.raises(LoginRefused, match="first failed authenticating ann: it is down"):
        await chain_of(clock, Link(first)).log_in(Attempt("ann", b"a"))


async def test_permissions_are_asked_of_the_authz_backends_all_of_them(
    clock: ManualClock, first: Scripted, second: Scripted
) -> None:
    third = Scripted("third", {"ann": b"a"}, REFUSED)
    second.users["ann"] = b"a"
    steps: list[Step] = []
    chain = chain_of(clock, Link(first, (second, third)))
    user = await chain.log_in(Attempt("ann", b"a"), steps.append)
    assert user.tags == ("tag of first", "tag of second", "tag of third")
    assert [(step.backend, step.question) for step in steps] == [
        ("first", "authentication"), ("second", "authorization"), ("third", "authorization"),
    ]  # fmt: skip
    assert user.authorization is not None
    await user.authorization.ask(WRITE)
    assert user.authorization.verdict(WRITE) == Verdict(False, backend="third")
    assert first.asked == ["ann"]


async def test_a_backend_that_does_not_authorize_refuses_the_login(
    clock: ManualClock, first: Scripted
) -> None:
    with pytest.raises(LoginRefused, match="stranger does not know ann"):
        await chain_of(clock, Link(first, (Scripted("stranger"),))).log_in(Attempt("ann", b"a"))


async def test_internal_authorization_needs_no_answers(clock: ManualClock, first: Scripted) -> None:
    access = AccessControl()
    chain = BackendChain([Link(first, (InternalBackend(access),))], access, clock)
    assert not chain.is_internal_only
    with pytest.raises(LoginRefused, match="user 'ann' - invalid credentials"):
        await chain.log_in(Attempt("ann", b"a"))
    assert BackendChain([Link(InternalBackend(access))], access, clock).is_internal_only


async def test_a_check_waits_for_its_answer_and_then_knows_it(
    clock: ManualClock, first: Scripted
) -> None:
    access = AccessControl()
    grants = [(first, Identity("ann"))]
    user = User("ann", authorization=Authorization("ann", grants, clock))
    with pytest.raises(AnswerPending) as pending:
        access.require(user, "/", "exchange", "", "write")
    await pending.value.ask()
    access.require(user, "/", "exchange", "", "write")
    assert first.asked == [Question("exchange", "/", "amq.default", "write")]
    clock.advance(ANSWER_MS_MAX + 1)
    with pytest.raises(AnswerPending):
        access.require(user, "/", "exchange", "", "write")


async def test_an_error_refuses_once_and_is_asked_for_again(
    clock: ManualClock, first: Scripted
) -> None:
    access = AccessControl()
    user = User("ann", authorization=Authorization("ann", [(first, Identity("ann"))], clock))

    async def check() -> None:
        access.require(user, "/", "queue", "q", "read")

    first.is_down = True
    with pytest.raises(SoftError) as caught:
        await once_answered(check)
    assert caught.value.explanation == (
        "access to queue 'q' in vhost '/' refused for user 'ann', "
        "backend first returned an error: it is down"
    )
    first.is_down = False
    await once_answered(check)


async def test_answers_of_a_login_are_bounded(clock: ManualClock, first: Scripted) -> None:
    authorization = Authorization("ann", [(first, Identity("ann"))], clock)
    for number in range(ANSWERS_PER_LOGIN_MAX + 1):
        await authorization.ask(Question("queue", "/", f"q{number}", "read"))
    assert authorization.verdict(Question("queue", "/", "q1", "read")) == PERMITTED
    with pytest.raises(AnswerPending):
        authorization.verdict(Question("queue", "/", "q0", "read"))


async def test_a_call_that_always_has_another_question_ends() -> None:
    async def nothing() -> None:
        pass

    async def endless() -> None:
        raise AnswerPending(nothing)

    with pytest.raises(TooManyQuestions):
        await once_answered(endless)


async def test_the_cache_keeps_logins_and_answers_for_its_time(
    clock: ManualClock, first: Scripted
) -> None:
    cache = CacheBackend(first, first, 1_000, False, clock)
    who = await cache.log_in(Attempt("ann", b"a"))
    assert await cache.log_in(Attempt("ann", b"a")) == who
    for _ in range(2):
        with pytest.raises(LoginRefused):
            await cache.log_in(Attempt("ann", b"wrong"))
    assert first.asked == ["ann"] * 3
    assert cache.known(who, WRITE) is None
    await cache.ask(who, WRITE)
    assert cache.known(who, WRITE) == PERMITTED
    clock.advance(1_000)
    assert cache.known(who, WRITE) is None
    await cache.log_in(Attempt("ann", b"a"))
    assert first.asked[-1] == "ann"


async def test_the_cache_keeps_refusals_if_asked_to_and_errors_never(
    clock: ManualClock, first: Scripted
) -> None:
    cache = CacheBackend(first, first, 1_000, True, clock)
    for _ in range(2):
        with pytest.raises(LoginRefused, match="first does not know ann"):
            await cache.log_in(Attempt("ann", b"wrong"))
    assert first.asked == ["ann"]
    first.verdict = REFUSED
    await cache.ask(Identity("ann"), WRITE)
    assert cache.known(Identity("ann"), WRITE) == REFUSED
    first.is_down = True
    other = Question("queue", "/", "q", "read")
    await cache.ask(Identity("ann"), other)
    assert cache.known(Identity("ann"), other) is None
