"""Lists: pages, filters, order and columns, as RabbitMQ has them."""

from __future__ import annotations

import pytest

from acceptance.management_client import Api


@pytest.fixture
def queues(api: Api, vhost: str) -> str:
    """A virtual host with the queues q0 to q4, and one more."""
    for number in range(5):
        api.must(api.put("queues", vhost, f"q{number}", body={"durable": number % 2 == 0}))
    api.must(api.put("queues", vhost, "Other", body={"auto_delete": True}))
    return vhost


def names(api: Api, vhost: str, **query: object) -> list[str]:
    listed = api.must(api.get("queues", vhost, **query))
    return [queue["name"] for queue in (listed if isinstance(listed, list) else listed["items"])]


def test_t165_a_list_comes_in_pages(api: Api, queues: str) -> None:
    page = api.must(api.get("queues", queues, page=2, page_size=4, columns="name"))
    assert page == {
        "total_count": 6, "item_count": 2, "filtered_count": 6, "page": 2, "page_size": 4,
        "page_count": 2, "items": [{"name": "q3"}, {"name": "q4"}],
    }  # fmt: skip
    assert api.must(api.get("queues", queues, page=1))["page_size"] == 100


def test_t165_a_page_is_empty_only_at_the_very_end(api: Api, queues: str) -> None:
    after_the_last = api.must(api.get("queues", queues, page=3, page_size=3))
    assert (after_the_last["items"], after_the_last["page_count"]) == ([], 2)
    assert api.get("queues", queues, page=4, page_size=3).refusal == (
        400,
        "page_out_of_range",
        "Page out of range, page: 4 page size: 3, len: 6",
    )


@pytest.mark.parametrize(
    ("page", "size", "error", "reason"),
    [
        (0, None, "invalid_pagination_parameters",
         "Invalid pagination parameters: page number 0, page size undefined"),
        (-1, 5, "invalid_pagination_parameters",
         "Invalid pagination parameters: page number -1, page size 5"),
        (1, 501, "invalid_pagination_parameters",
         "Invalid pagination parameters: page number 1, page size 501"),
        (1, 0, "invalid_pagination_parameters",
         "Invalid pagination parameters: page number 1, page size 0"),
        ("x", None, "bad_request", "Pagination parameters are invalid"),
        (1, "x", "bad_request", "Pagination parameters are invalid"),
    ],
)  # fmt: skip
def test_t165_what_is_no_page_is_refused(
    api: Api, queues: str, page: object, size: object, error: str, reason: str
) -> None:
    query = {"page": page} if size is None else {"page": page, "page_size": size}
    assert api.get("queues", queues, **query).refusal == (400, error, reason)


def test_t165_pages_are_filtered_by_name(api: Api, queues: str) -> None:
    assert names(api, queues, page=1, name="OTH") == ["Other"]
    assert names(api, queues, page=1, name="Q") == ["q0", "q1", "q2", "q3", "q4"]
    assert names(api, queues, page=1, name="q[13]$", use_regex="true") == ["q1", "q3"]
    page = api.must(api.get("queues", queues, page=1, name="q1"))
    assert (page["total_count"], page["filtered_count"], page["page_count"]) == (6, 1, 1)
    invalid = api.get("queues", queues, page=1, name="(", use_regex="true")
    assert invalid.refusal == (400, "bad_request", "Pagination parameters are invalid")
    # Without a page there is no filter.
    assert len(names(api, queues, name="q1")) == 6


def test_a_filter_that_would_take_for_ever_is_refused_or_quick(api: Api, queues: str) -> None:
    """Names and patterns with which an engine without limits never comes back."""
    for name in ("a" * 200 + "b", "q" + "bc" * 120 + "!"):
        api.must(api.put("queues", queues, name, body={}))
    assert names(api, queues, page=1, name="^(a+)+$", use_regex="true") == []
    for pattern in ("q(?!x)([ab]c|bc)+$", "z?(?!x)(a|aa)+$"):
        refused = api.get("queues", queues, page=1, name=pattern, use_regex="true")
        assert refused.status == 400
    assert len(names(api, queues)) == 8


def test_t166_lists_have_the_columns_that_were_asked_for(api: Api, queues: str) -> None:
    listed = api.must(api.get("queues", queues, columns="name,durable"))
    assert {"name": "q0", "durable": True} in listed
    assert all(set(queue) == {"name", "durable"} for queue in listed)
    shown = api.must(api.get("queues", queues, "q0", columns="name,vhost"))
    assert shown == {"name": "q0", "vhost": queues}


def test_t166_columns_reach_into_objects(api: Api, vhost: str) -> None:
    arguments = {"x-max-length": 5, "x-expires": 60_000}
    api.must(api.put("queues", vhost, "q", body={"arguments": arguments}))
    (shown,) = api.must(api.get("queues", vhost, columns="arguments.x-max-length,name"))
    assert set(shown) == {"name", "arguments"}
    # RabbitMQ shows all of the arguments then, since it keeps them as another kind of object.
    assert shown["arguments"]["x-max-length"] == 5


def test_t166_lists_are_sorted_as_asked(api: Api, queues: str) -> None:
    by_name = ["Other", "q0", "q1", "q2", "q3", "q4"]
    assert names(api, queues) == by_name
    assert names(api, queues, sort="name", sort_reverse="true") == by_name[::-1]
    assert names(api, queues, sort="durable") == ["Other", "q1", "q3", "q0", "q2", "q4"]
    assert names(api, queues, sort="auto_delete", sort_reverse="true")[0] == "Other"
    # What a thing lacks counts as nothing; then names decide.
    assert names(api, queues, sort="no.such.column") == by_name


def test_t166_sorting_reaches_into_objects(api: Api, vhost: str) -> None:
    for name, length in (("a", 30), ("b", 4), ("c", None)):
        arguments = {} if length is None else {"x-max-length": length}
        api.must(api.put("queues", vhost, name, body={"arguments": arguments}))
    assert names(api, vhost, sort="arguments.x-max-length") == ["c", "b", "a"]
    page = {"page": 1, "page_size": 2, "sort_reverse": "true"}
    assert names(api, vhost, sort="arguments.x-max-length", **page) == ["a", "b"]


def test_a_header_names_the_virtual_host_too(api: Api, queues: str) -> None:
    headers = {**api.credentials, "X-Vhost": queues}
    listed = api.call("GET", "/api/queues?columns=name", headers=headers)
    assert len(api.must(listed)) == 6


def test_a_long_list_comes_whole(api: Api, vhost: str) -> None:
    definitions = {
        "queues": [
            {"name": f"q{n:04}", "vhost": vhost, "durable": False, "auto_delete": False,
             "arguments": {}}
            for n in range(420)
        ]
    }  # fmt: skip
    api.must(api.post("definitions", body=definitions))
    assert names(api, vhost) == [f"q{n:04}" for n in range(420)]
    assert names(api, vhost, page=5, page_size=100) == [f"q{n:04}" for n in range(400, 420)]
    assert names(api, vhost, sort="name", sort_reverse="true")[0] == "q0419"
