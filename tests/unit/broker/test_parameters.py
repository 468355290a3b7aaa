"""Runtime parameters: the face that policies and limits have by component."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_world import BrokerWorld
from warren.auth.admin import NoSuchVhost
from warren.broker.parameter_operations import NoSuchParameter, Parameter, ParameterInvalid
from warren.model.json_terms import JsonValue
from warren.model.records import Policy

TERMS: dict[str, JsonValue] = {
    "pattern": "x",
    "definition": {"message-ttl": 1},
    "priority": 0,
    "apply-to": "all",
}


async def test_the_list_shows_all_but_policies_which_have_to_be_asked_for(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        parameters = world.broker.parameters
        await world.broker.add_vhost("v")
        await world.broker.policies.set(Policy("/", "p", "x", {"message-ttl": 1}))
        await parameters.set("operator_policy", "/", "op", TERMS)
        await parameters.set("vhost-limits", "v", "limits", {"max-queues": 5})
        operator = Parameter("operator_policy", "/", "op", TERMS)
        limits = Parameter("vhost-limits", "v", "limits", {"max-queues": 5})
        assert parameters.list() == [operator, limits]
        assert parameters.list(vhost="v") == [limits]
        assert parameters.list("policy") == [Parameter("policy", "/", "p", TERMS)]
        assert parameters.list("shovel") == []
        assert world.broker.access.directory.vhost_limits("v") == {"max-queues": 5}
        assert world.broker.policies.list(operator=True)[0].name == "op"


async def test_what_was_set_can_be_cleared_once(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        parameters = world.broker.parameters
        await parameters.set("operator_policy", "/", "op", TERMS)
        await parameters.set("vhost-limits", "/", "limits", {"max-queues": 5})
        await parameters.clear("operator_policy", "/", "op")
        await parameters.clear("vhost-limits", "/", "limits")
        assert parameters.list() == []
        with pytest.raises(NoSuchParameter, match="Parameter does not exist"):
            await parameters.clear("operator_policy", "/", "op")


@pytest.mark.parametrize(
    ("component", "name", "value", "text"),
    [
        ("policy", "p", TERMS, "policies may not be set using this method"),
        ("shovel", "s", {}, "Validation failed\n\ncomponent shovel not found\n"),
        ("operator_policy", "p3", 5, "Validation failed\n\np3 not a list 5\n"),
        (
            "operator_policy",
            "p3",
            {"pattern": "x", "definition": {"message-ttl": 1}},
            'Validation failed\n\nKey "priority" not found in p3\n',
        ),
        (
            "vhost-limits",
            "limits",
            {"max-q": 5},
            'Validation failed\n\nUnrecognised terms [{<<"max-q">>,5}] in limits\n',
        ),
    ],
)
async def test_what_may_not_be_set_is_told_in_the_words_of_rabbitmq(
    tmp_path: Path, component: str, name: str, value: JsonValue, text: str
) -> None:
    async with BrokerWorld(tmp_path) as world:
        with pytest.raises(ParameterInvalid) as raised:
            await world.broker.parameters.set(component, "/", name, value)
        assert str(raised.value) == text
        with pytest.raises(NoSuchVhost):
            await world.broker.parameters.set(component, "nowhere", name, value)


async def test_policies_are_not_cleared_as_parameters(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        with pytest.raises(ParameterInvalid, match="may not be cleared using this method"):
            await world.broker.parameters.clear("policy", "/", "p")


async def test_global_parameters_are_kept_and_the_cluster_has_its_id_for_good(
    tmp_path: Path,
) -> None:
    async with BrokerWorld(tmp_path) as world:
        parameters = world.broker.parameters
        await parameters.set_global("big", {"number": 10**30, "text": "é"})
        await parameters.set_global("gone", 1)
        await parameters.clear_global("gone")
        with pytest.raises(NoSuchParameter):
            await parameters.clear_global("gone")
        cluster_id = parameters.list_global()["internal_cluster_id"]
    async with BrokerWorld(tmp_path) as world:
        assert world.broker.parameters.list_global() == {
            "big": {"number": 10**30, "text": "é"},
            "internal_cluster_id": cluster_id,
        }
        assert str(cluster_id).startswith("rabbitmq-cluster-id-")
