"""JSON as Erlang prints it, line breaks and all. RabbitMQ 3.10.8 printed each of these."""

from __future__ import annotations

from warren.model.json_terms import JsonValue, render_terms

A, B, C = "a" * 34, "b" * 41, "c" * 23


def shown(terms: dict[str, JsonValue]) -> str:
    return render_terms(terms)


def test_a_list_that_does_not_fit_is_broken_after_every_member() -> None:
    assert shown({A: 1, B: [1, 2, 3, "a"], C: {"a": 1, "b": 2}}) == (
        f'[{{<<"{A}">>,1}},\n'
        f' {{<<"{B}">>,[1,2,3,<<"a">>]}},\n'
        f' {{<<"{C}">>,#{{<<"a">> => 1,<<"b">> => 2}}}}]'
    )


def test_maps_are_broken_before_their_values() -> None:
    long, short = "a" * 38, "b" * 21
    assert shown({"zz": {long: long + "a", "b": short}}) == (
        '[{<<"zz">>,\n'
        f'  #{{<<"{long}">> =>\n'
        f'        <<"{long}a">>,\n'
        f'    <<"b">> => <<"{short}">>}}}}]'
    )


def test_a_list_of_numbers_fills_its_lines() -> None:
    assert shown({"zz": list(range(60))}) == (
        '[{<<"zz">>,\n'
        "  [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,\n"
        "   28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,\n"
        "   53,54,55,56,57,58,59]}]"
    )


def test_what_cannot_be_broken_runs_over() -> None:
    assert shown({"zz": "a" * 100}) == f'[{{<<"zz">>,\n  <<"{"a" * 100}">>}}]'
