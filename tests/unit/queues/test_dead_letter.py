"""Dead-lettered messages: their headers, their keys, and where they must not go again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from field_strategies import fields, tables
from warren.model.fields import EMPTY_TABLE, Field, Table, array, long, longstr
from warren.queues.dead_letter import Death, DeathReason, dead_letter, split_cycles
from warren.wire.properties import Properties, decode_properties, encode_properties
from warren.wire.tables import table_to_python

REJECTED = Death(DeathReason.REJECTED, "work", "amq.direct", "rk", 1_700_000_000)
EXPIRED = replace(REJECTED, reason=DeathReason.EXPIRED)


def die(headers: Table | None, *deaths: Death) -> Table:
    """Headers after these deaths, oldest first, each dead-lettered with a key of its own."""
    properties = Properties(headers=headers)
    for death in deaths:
        properties = dead_letter(properties, death, "next").properties
    assert properties.headers is not None
    return properties.headers


def x_death(headers: Table) -> list[dict[str, object]]:
    found = table_to_python(headers)["x-death"]
    assert isinstance(found, list)
    return found


def deaths(*entries: dict[str, str | int]) -> Table:
    """Headers with an x-death array as a former broker or a client may have left it."""
    listed = [
        Field("F", Table((k, longstr(v) if isinstance(v, str) else long(v)) for k, v in e.items()))
        for e in entries
    ]
    return Table([("x-death", array(listed))])


def test_a_first_death_is_described_in_full() -> None:
    before = Properties(
        headers=Table([("mine", Field("I", 1))]), expiration="60000", message_id="x", priority=3
    )
    after, keys = dead_letter(before, REJECTED, None)
    assert keys == ["rk"]
    entry = Table(
        [
            ("count", long(1)),
            ("reason", longstr("rejected")),
            ("queue", longstr("work")),
            ("time", Field("T", 1_700_000_000)),
            ("exchange", longstr("amq.direct")),
            ("routing-keys", array([longstr("rk")])),
            ("original-expiration", longstr("60000")),
        ]
    )
    assert after.headers == Table(
        [
            ("mine", Field("I", 1)),
            ("x-first-death-reason", longstr("rejected")),
            ("x-first-death-queue", longstr("work")),
            ("x-first-death-exchange", longstr("amq.direct")),
            ("x-death", array([Field("F", entry)])),
        ]
    )
    assert (after.expiration, after.message_id, after.priority) == (None, "x", 3)
    assert before.expiration == "60000"


def test_a_message_without_expiration_has_none_to_remember() -> None:
    (entry,) = x_death(die(None, EXPIRED))
    assert "original-expiration" not in entry
    assert entry["reason"] == "expired"


@pytest.mark.parametrize("reason", list(DeathReason))
def test_the_reason_is_spelled_as_rabbitmq_does(reason: DeathReason) -> None:
    (entry,) = x_death(die(None, replace(REJECTED, reason=reason)))
    assert entry["reason"] in ("rejected", "expired", "maxlen", "delivery_limit")
    assert entry["reason"] == reason.value


def test_the_latest_death_is_first_and_the_others_are_reversed_each_time() -> None:
    path = [replace(EXPIRED, queue=f"q{n}") for n in range(5)]
    assert [d["queue"] for d in x_death(die(None, *path))] == ["q4", "q2", "q0", "q1", "q3"]


def test_names_in_the_first_table_are_sorted_from_the_second_death_on() -> None:
    (only,) = x_death(die(None, REJECTED))
    assert list(only) == ["count", "reason", "queue", "time", "exchange", "routing-keys"]
    latest, _ = x_death(die(None, REJECTED, EXPIRED))
    assert list(latest) == sorted(only)


def test_the_first_death_is_kept_over_later_ones() -> None:
    headers = table_to_python(die(None, EXPIRED, replace(REJECTED, queue="later", exchange="e")))
    assert headers["x-first-death-reason"] == "expired"
    assert headers["x-first-death-queue"] == "work"
    assert headers["x-first-death-exchange"] == "amq.direct"


def test_dying_again_of_the_same_counts_up_and_moves_to_the_front() -> None:
    other = replace(EXPIRED, queue="retry")
    again = replace(REJECTED, wall_seconds=1_800_000_000, exchange="other", routing_key="else")
    newest, former = x_death(die(None, REJECTED, other, again))
    assert newest == {
        "count": 2,
        "reason": "rejected",
        "queue": "work",
        "time": 1_700_000_000,
        "exchange": "amq.direct",
        "routing-keys": ["rk"],
    }
    assert (former["queue"], former["count"]) == ("retry", 1)


def test_the_same_queue_for_another_reason_is_another_death() -> None:
    assert [d["count"] for d in x_death(die(None, REJECTED, EXPIRED))] == [1, 1]


def test_a_loop_of_two_queues_counts_both() -> None:
    retry = replace(EXPIRED, queue="retry")
    entries = x_death(die(None, REJECTED, retry, REJECTED, retry))
    assert [(d["queue"], d["count"]) for d in entries] == [("retry", 2), ("work", 2)]


@pytest.mark.parametrize(
    "field", [longstr("[{count, 1}]"), Field("V", None), Field("F", Table([("a", long(1))]))]
)
def test_an_x_death_that_is_no_array_is_replaced(field: Field) -> None:
    headers = die(Table([("x-death", field)]), REJECTED)
    assert [d["count"] for d in x_death(headers)] == [1]
    assert "x-first-death-queue" not in headers


def test_an_empty_x_death_is_not_a_first_death() -> None:
    headers = die(deaths(), REJECTED)
    assert len(x_death(headers)) == 1
    assert "x-first-death-queue" not in headers


def test_what_a_client_put_between_the_deaths_is_kept() -> None:
    headers = die(Table([("x-death", array([longstr("odd")]))]), REJECTED)
    assert table_to_python(headers)["x-death"][1:] == ["odd"]  # type: ignore[index]


def test_several_tables_of_one_death_become_one_with_their_number_as_count() -> None:
    """Brokers before 3.6 wrote a table per death and no count."""
    entry: dict[str, str | int] = {"queue": "work", "reason": "rejected"}
    headers = die(deaths(entry, entry, {"queue": "o", "reason": "expired"}), REJECTED)
    assert [(d["queue"], d.get("count")) for d in x_death(headers)] == [("work", 3), ("o", 1)]


def test_a_single_table_without_a_count_gets_none() -> None:
    headers = die(deaths({"queue": "o", "reason": "expired"}), REJECTED)
    assert [(d["queue"], d.get("count")) for d in x_death(headers)] == [("work", 1), ("o", None)]
    assert x_death(die(deaths({"queue": "work", "reason": "rejected"}), REJECTED))[0]["count"] == 1


def test_counts_of_other_types_are_continued_or_begun_anew() -> None:
    counted: dict[str, str | int] = {"queue": "work", "reason": "rejected", "count": 5}
    assert x_death(die(deaths(counted), REJECTED))[0]["count"] == 6
    spoilt = counted | {"count": "five"}
    assert x_death(die(deaths(spoilt), REJECTED))[0]["count"] == 1


def test_a_count_cannot_grow_beyond_its_type() -> None:
    full: dict[str, str | int] = {"queue": "work", "reason": "rejected", "count": (1 << 63) - 1}
    properties = Properties(headers=die(deaths(full), REJECTED))
    assert decode_properties(encode_properties(properties)) == properties


def test_carbon_copies_die_with_the_message_and_get_it_again() -> None:
    headers = Table([("CC", array([longstr("c1"), longstr("c2")]))])
    death = replace(REJECTED, blind_copies=("b1",))
    after, keys = dead_letter(Properties(headers=headers), death, None)
    assert keys == ["rk", "c1", "c2", "b1"]
    assert after.headers is not None
    assert after.headers.get("CC") == headers.get("CC")
    assert x_death(after.headers)[0]["routing-keys"] == ["rk", "c1", "c2"]


def test_a_new_key_replaces_all_keys_and_the_cc_header() -> None:
    headers = Table([("CC", array([longstr("c1")]))])
    after, keys = dead_letter(Properties(headers=headers), REJECTED, "new")
    assert keys == ["new"]
    assert after.headers is not None
    assert "CC" not in after.headers
    assert x_death(after.headers)[0]["routing-keys"] == ["rk", "c1"]


def test_an_empty_new_key_is_a_key() -> None:
    assert dead_letter(Properties(), REJECTED, "").routing_keys == [""]


@given(tables() | st.none(), fields(), st.sampled_from(DeathReason))
def test_whatever_headers_a_client_sends_the_result_goes_on_the_wire(
    headers: Table | None, spoilt: Field, reason: DeathReason
) -> None:
    for given_headers in (headers, (headers or EMPTY_TABLE).replacing("x-death", spoilt)):
        death = replace(REJECTED, reason=reason)
        once = dead_letter(Properties(headers=given_headers), death, None).properties
        twice = dead_letter(once, death, None).properties
        assert decode_properties(encode_properties(twice)) == twice
        assert twice.headers is not None
        newest = x_death(twice.headers)[0]
        assert (newest["queue"], newest["reason"]) == ("work", reason.value)


def test_a_queue_that_expires_into_itself_is_skipped() -> None:
    headers = die(None, EXPIRED)
    assert split_cycles(["work", "else"], DeathReason.EXPIRED, headers) == (["else"], ["work"])


def test_a_longer_automatic_circle_is_skipped_too() -> None:
    headers = die(None, EXPIRED, replace(EXPIRED, queue="b", reason=DeathReason.MAXLEN))
    assert split_cycles(["work"], DeathReason.MAXLEN, headers) == ([], ["work"])


def test_a_rejection_may_return_to_where_it_was() -> None:
    headers = die(None, EXPIRED, REJECTED)
    assert split_cycles(["work"], DeathReason.REJECTED, headers) == (["work"], [])


def test_a_circle_with_a_rejection_in_it_goes_on() -> None:
    headers = die(None, REJECTED, replace(EXPIRED, queue="retry"))
    assert split_cycles(["work"], DeathReason.EXPIRED, headers) == (["work"], [])


def test_a_rejection_before_the_circle_began_does_not_excuse_it() -> None:
    headers = die(None, replace(REJECTED, queue="earlier"), EXPIRED)
    assert split_cycles(["work"], DeathReason.EXPIRED, headers) == ([], ["work"])


def test_a_rejection_that_comes_first_in_the_array_hides_a_longer_circle() -> None:
    other = replace(EXPIRED, queue="b")
    headers = die(None, replace(REJECTED, queue="earlier"), EXPIRED, other)
    assert [d["queue"] for d in x_death(headers)] == ["b", "earlier", "work"]
    assert split_cycles(["work"], DeathReason.EXPIRED, headers) == (["work"], [])


def test_a_circle_a_client_had_its_hands_in_goes_on() -> None:
    old = Table([("queue", longstr("work")), ("reason", longstr("expired"))])
    headers = Table([("x-death", array([longstr("odd"), Field("F", old)]))])
    assert split_cycles(["work"], DeathReason.EXPIRED, headers) == (["work"], [])


def test_without_a_trace_there_is_no_circle() -> None:
    assert split_cycles(["work"], DeathReason.EXPIRED, None) == (["work"], [])
    spoilt = Table([("x-death", longstr("work"))])
    assert split_cycles(["work"], DeathReason.EXPIRED, spoilt) == (["work"], [])
