"""Policies in a broker: what applies, when it takes effect, what is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_world import BrokerWorld, publish_to
from pattern_charges import forget_charges
from warren.auth.admin import NoSuchVhost
from warren.broker.policy_operations import NoSuchPolicy
from warren.broker.policy_walk import OBJECTS_PER_TURN_MAX
from warren.metadata.keys import policy_key
from warren.metadata.policy_codec import encode_policy
from warren.metadata.store import Put
from warren.model.fields import Table, long, longstr
from warren.model.records import ExchangeRecord, Policy, QueueRecord
from warren.policy.validation import PolicyInvalid
from warren.queues.queue import Queue


async def declare(world: BrokerWorld, name: str, arguments: Table | None = None) -> Queue:
    record = QueueRecord("/", name, arguments=arguments or Table())
    return await world.vhost.declare_queue(record, False, "me")


async def test_a_queue_that_is_there_gets_the_policy_and_loses_it_again(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        queue = await declare(world, "q")
        for _ in range(3):
            publish_to(queue)
        await world.broker.policies.set(Policy("/", "p", "^q$", {"max-length": 1}))
        assert queue.message_count == 1
        assert queue.settings.max_length == 1
        await world.broker.policies.clear("/", "p")
        assert queue.settings.max_length is None


async def test_a_queue_declared_later_has_the_policy_from_the_beginning(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        await world.broker.policies.set(Policy("/", "p", "^q", {"message-ttl": 7}))
        assert (await declare(world, "q")).settings.message_ttl_ms == 7
        assert (await declare(world, "other")).settings.message_ttl_ms is None


async def test_policies_are_there_after_a_restart_and_so_is_their_effect(tmp_path: Path) -> None:
    policy = Policy("/", "p", "q", {"max-length": 5, "message-ttl": 10**30}, 2.5, "queues")
    async with BrokerWorld(tmp_path) as world:
        await declare(world, "q")
        await world.broker.policies.set(policy)
        await world.broker.policies.set(Policy("/", "op", "", {"max-length": 3}), operator=True)
    async with BrokerWorld(tmp_path) as world:
        assert world.broker.policies.list() == [policy]
        assert world.vhost.queues["q"].settings.max_length == 3
        applied = world.vhost.policy_of_queue("q")
        assert applied.policy == policy
        assert applied.operator_policy is not None
        assert dict(applied.effective) == {"max-length": 3, "message-ttl": 10**30}


async def test_4_34_of_equal_priority_the_first_name_and_clearing_makes_room(
    tmp_path: Path,
) -> None:
    async with BrokerWorld(tmp_path) as world:
        queue = await declare(world, "q")
        for name, priority in (("c", 1), ("b", 0), ("a", 0)):
            policy = Policy("/", name, "", {"max-length": ord(name)}, priority)
            await world.broker.policies.set(policy)
        order = []
        for name in ("c", "a", "b"):
            order.append(queue.settings.max_length)
            await world.broker.policies.clear("/", name)
        assert order == [ord("c"), ord("a"), ord("b")]
        assert queue.settings.max_length is None


async def test_4_33_a_key_that_classic_queues_do_not_know_keeps_the_whole_policy_away(
    tmp_path: Path,
) -> None:
    async with BrokerWorld(tmp_path) as world:
        queue = await declare(world, "q")
        definition = {"ha-mode": "all", "max-length": 1, "delivery-limit": 3}
        await world.broker.policies.set(Policy("/", "p", "", definition, 9))
        await world.broker.policies.set(Policy("/", "weaker", "", {"max-length": 4}))
        assert queue.settings.max_length == 4


async def test_an_exchange_gets_its_alternate_from_the_policy_unless_it_was_declared_with_one(
    tmp_path: Path,
) -> None:
    async with BrokerWorld(tmp_path) as world:
        vhost = world.vhost
        plain = await vhost.declare_exchange(ExchangeRecord("/", "plain", "fanout"))
        arguments = Table([("alternate-exchange", longstr("amq.direct"))])
        own = await vhost.declare_exchange(
            ExchangeRecord("/", "own", "fanout", True, False, False, arguments)
        )
        before = vhost.generation
        policy = Policy("/", "p", "", {"alternate-exchange": "amq.topic"}, 0, "exchanges")
        await world.broker.policies.set(policy)
        assert (plain.alternate, own.alternate) == ("amq.topic", "amq.direct")
        assert vhost.generation > before
        later = await vhost.declare_exchange(ExchangeRecord("/", "later", "fanout"))
        assert later.alternate == "amq.topic"
        await world.broker.policies.clear("/", "p")
        assert plain.alternate is None


async def test_more_queues_than_fit_a_turn_get_the_last_policy_in_the_end(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        queues = [await declare(world, f"q{n}") for n in range(2 * OBJECTS_PER_TURN_MAX)]
        await world.broker.policies.set(Policy("/", "p", "", {"max-length": 1}))
        assert not world.vhost.policy_walk.is_done
        assert len({queue.settings.max_length for queue in queues}) == 2
        assert dict(world.vhost.policy_of_queue("q200").effective) == {"max-length": 1}
        await world.broker.policies.set(Policy("/", "p", "", {"max-length": 2}))
        world.host.clock.advance(0)
        assert world.vhost.policy_walk.is_done
        assert {queue.settings.max_length for queue in queues} == {2}


async def test_what_may_not_be_set_is_not_stored(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        policies = world.broker.policies
        with pytest.raises(PolicyInvalid, match="no policy provided"):
            await policies.set(Policy("/", "p", "", {}))
        with pytest.raises(NoSuchVhost):
            await policies.set(Policy("nowhere", "p", "", {"max-length": 1}))
        with pytest.raises(NoSuchPolicy):
            await policies.clear("/", "p")
        assert policies.list() == []


async def test_a_policy_goes_with_its_virtual_host(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        await world.broker.add_vhost("v")
        await world.broker.policies.set(Policy("v", "p", "", {"max-length": 1}))
        await world.broker.delete_vhost("v")
        await world.broker.add_vhost("v")
        assert world.broker.policies.list("v") == []


async def test_setting_the_same_again_changes_nothing(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        told: list[str] = []
        await world.broker.policies.set(Policy("/", "p", "", {"max-length": 1}))
        world.store.watch(lambda changes: told.extend(change.key for change in changes))
        await world.broker.policies.set(Policy("/", "p", "", {"max-length": 1}))
        assert told == []


async def test_a_dry_run_tells_what_would_change_and_changes_nothing(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        await declare(world, "q", Table([("x-max-length", long(4))]))
        await declare(world, "other")
        policy = Policy("/", "p", "^q$", {"max-length": 9, "message-ttl": 5})
        changes = await world.broker.policies.dry_run(policy)
        assert [(change.kind.value, change.name) for change in changes] == [("queue", "q")]
        assert [(v.key, v.before, v.after) for v in changes[0].values] == [("message-ttl", None, 5)]
        assert world.broker.policies.list() == []
        await world.broker.policies.set(policy)
        assert await world.broker.policies.dry_run(policy) == []


async def test_explaining_names_the_origin_of_every_value(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        arguments = Table([("x-max-length", long(4)), ("x-overflow", longstr("reject-publish"))])
        await declare(world, "q", arguments)
        user = {"max-length": 9, "message-ttl": 5, "overflow": "drop-head"}
        await world.broker.policies.set(Policy("/", "user", "q", user))
        await world.broker.policies.set(Policy("/", "no", "x", {"max-length": 1}, 5))
        operator = Policy("/", "op", "", {"message-ttl": 3})
        await world.broker.policies.set(operator, operator=True)
        explanation = world.broker.policies.explain_queue("/", "q")
        assert [(v.key, v.value, v.origin.value, v.policy) for v in explanation.values] == [
            ("max-length", 4, "argument", ""),
            ("message-ttl", 3, "operator policy", "op"),
            ("overflow", "reject-publish", "argument", ""),
        ]
        assert [(v.policy, v.applies, v.reason) for v in explanation.verdicts] == [
            ("no", False, "its pattern 'x' does not match the name"),
            ("user", True, "it is the strongest of those that match"),
            ("op", True, "it is the strongest of those that match"),
        ]


async def test_s16_an_argument_keeps_a_queue_from_the_mode_of_a_policy(tmp_path: Path) -> None:
    """S16, 4-32: the policy flips only queues without the argument."""
    async with BrokerWorld(tmp_path) as world:
        own = await declare(world, "own", Table([("x-queue-mode", longstr("default"))]))
        plain = await declare(world, "plain")
        for mode, is_lazy in (("lazy", True), ("default", False)):
            await world.broker.policies.set(Policy("/", "p", "", {"queue-mode": mode}))
            assert plain.settings.lazy is is_lazy
            assert own.settings.lazy is False


# Taken when it is set: only names that repeat `bc` make it slow.
SLOW = "q(?!x)([ab]c|bc)+$"
HARD_NAME = "q" + "bc" * 120 + "!"
TOO_SLOW = "it takes more than 2 ms to match a name"


@pytest.fixture(autouse=True)
def no_charges(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_charges(monkeypatch)


async def test_a_pattern_too_slow_for_a_queue_that_is_there_is_refused(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        await declare(world, HARD_NAME)
        policy = Policy("/", "p", SLOW, {"max-length": 1})
        for operation in (world.broker.policies.set, world.broker.policies.dry_run):
            with pytest.raises(PolicyInvalid, match=TOO_SLOW):
                await operation(policy)
        assert world.broker.policies.list() == []


async def test_a_stored_pattern_that_is_too_slow_applies_to_nothing_and_a_start_goes_on(
    tmp_path: Path,
) -> None:
    policy = Policy("/", "p", SLOW, {"max-length": 1}, 1)
    async with BrokerWorld(tmp_path) as world:
        await world.broker.policies.set(policy)
        await world.broker.policies.set(Policy("/", "other", "^q", {"max-length": 2}))
        assert world.broker.policies.problem(policy) == ""
        assert (await declare(world, HARD_NAME)).settings.max_length == 2
        assert world.broker.policies.problem(policy) == TOO_SLOW
        # Not tried again because some other policy changes.
        await world.broker.policies.clear("/", "other")
        assert world.broker.policies.problem(policy) == TOO_SLOW
        verdict = world.broker.policies.explain_queue("/", HARD_NAME).verdicts[0]
        assert verdict.reason == f"its pattern '{SLOW}' cannot be used: {TOO_SLOW}"
    async with BrokerWorld(tmp_path) as world:
        assert world.vhost.queues[HARD_NAME].settings.max_length is None
        assert world.broker.policies.problem(policy) == TOO_SLOW


async def test_a_stored_pattern_that_cannot_be_compiled_keeps_no_node_from_starting(
    tmp_path: Path,
) -> None:
    policy = Policy("/", "p", "a(?R)?b", {"max-length": 1})
    async with BrokerWorld(tmp_path) as world:
        put = Put(policy_key("/", "p", False), encode_policy(policy))
        assert await world.store.transact([], [put])
    async with BrokerWorld(tmp_path) as world:
        assert (await declare(world, "ab")).settings.max_length is None
        assert world.broker.policies.problem(policy).startswith("recursion is not supported")
