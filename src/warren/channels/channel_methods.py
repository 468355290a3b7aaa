"""channel.*, access.*, confirm.* and tx.*: the channel's own life and modes."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from pamqp import commands

from warren.channels.channel import Channel
from warren.channels.closing import (
    give_back,
    give_back_in_slices,
    has_many,
    stop_consuming,
    tell_confirms,
)
from warren.channels.confirms import Confirms
from warren.channels.transaction import Transaction
from warren.model.errors import not_implemented, precondition_failed
from warren.wire.methods import Access, Method


async def close(channel: Channel, method: commands.Channel.Close) -> None:
    tell_confirms(channel)
    channel.is_closing = True
    consumed = stop_consuming(channel)
    await channel.session.host.deletions_done()
    channel.session.send(channel, commands.Channel.CloseOk())
    channel.session.forget_channel(channel)
    if has_many(channel):
        await give_back_in_slices(channel, consumed)
    else:
        give_back(channel, consumed)


def flow(channel: Channel, method: commands.Channel.Flow) -> Method:
    if not method.active:
        raise not_implemented("active=false")
    return commands.Channel.FlowOk(True)


def access_request(channel: Channel, method: Access.Request) -> Method:
    return Access.RequestOk(1)


def confirm_select(channel: Channel, method: commands.Confirm.Select) -> Method | None:
    if channel.transaction is not None:
        raise precondition_failed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        due = channel.session.host.confirms_due
        channel.confirms = Confirms(channel.number, channel.output, due, channel.counters)
    return None if method.nowait else commands.Confirm.SelectOk()


def tx_select(channel: Channel, method: commands.Tx.Select) -> Method:
    if channel.confirms is not None:
        raise precondition_failed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel)
    return commands.Tx.SelectOk()


def tx_commit(channel: Channel, method: commands.Tx.Commit) -> Method | Coroutine[Any, Any, Method]:
    waiting = _transaction(channel).commit()
    return commands.Tx.CommitOk() if waiting is None else _commit_ok_after(waiting)


async def _commit_ok_after(waiting: Coroutine[Any, Any, None]) -> Method:
    await waiting
    return commands.Tx.CommitOk()


def tx_rollback(channel: Channel, method: commands.Tx.Rollback) -> Method:
    _transaction(channel).rollback()
    return commands.Tx.RollbackOk()


def _transaction(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise precondition_failed("channel is not transactional")
    return channel.transaction
