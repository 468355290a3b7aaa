"""Which function answers which method. What is not here is not for clients to send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pamqp import commands

from warren.channels import basic_methods, channel_methods, exchange_methods, queue_methods
from warren.wire.methods import Access, Method

HANDLERS: Final[dict[type[Method], Callable[[Any, Any], Any]]] = {
    commands.Channel.Close: channel_methods.close,
    commands.Channel.Flow: channel_methods.flow,
    Access.Request: channel_methods.access_request,
    commands.Confirm.Select: channel_methods.confirm_select,
    commands.Tx.Select: channel_methods.tx_select,
    commands.Tx.Commit: channel_methods.tx_commit,
    commands.Tx.Rollback: channel_methods.tx_rollback,
    commands.Exchange.Declare: exchange_methods.declare,
    commands.Exchange.Delete: exchange_methods.delete,
    commands.Exchange.Bind: exchange_methods.bind,
    commands.Exchange.Unbind: exchange_methods.unbind,
    commands.Queue.Declare: queue_methods.declare,
    commands.Queue.Delete: queue_methods.delete,
    commands.Queue.Bind: queue_methods.bind,
    commands.Queue.Unbind: queue_methods.unbind,
    commands.Queue.Purge: queue_methods.purge,
    commands.Basic.Qos: basic_methods.qos,
    commands.Basic.Consume: basic_methods.consume,
    commands.Basic.Cancel: basic_methods.cancel,
    commands.Basic.Get: basic_methods.get,
    commands.Basic.Ack: basic_methods.ack,
    commands.Basic.Nack: basic_methods.nack,
    commands.Basic.Reject: basic_methods.reject,
    commands.Basic.Recover: basic_methods.recover,
    commands.Basic.RecoverAsync: basic_methods.recover_async,
}
