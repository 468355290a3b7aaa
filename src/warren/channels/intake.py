"""Hands what a read brought to the channels it is for: the innermost loop of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warren.auth.questions import AnswerPending
from warren.channels.channel import Channel
from warren.channels.publishing import PUBLISH_IDS
from warren.channels.settling import ACK_IDS
from warren.model.errors import AmqpError
from warren.wire.codec import Ack, Message

if TYPE_CHECKING:
    from warren.channels.session import Session


class Intake:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.channels: dict[int, Channel] = {}
        # The one that published last, in the midst of a run.
        self.publishing: Channel | None = None
        # Set while a method waits for something outside (metadata, another node): what the client
        # sent after it stays in the list of events until it is done.
        self.is_suspended = False
        self.is_closed = False
        self.position = 0

    def process(self, events: list[Any], start: int) -> int:
        """Work through the events from `start`; returns where it had to stop."""
        position = start
        while position < len(events) and not self.is_suspended and not self.is_closed:
            try:
                position = self.run(events, position)
            except AmqpError as error:
                position = self.failed(events, error)
            except AnswerPending as pending:
                position = self.position  # it comes again when the answer is known
                self.session.wait_for(pending)
        self.settle()
        return position

    def settle(self) -> None:
        """Have publishes counted; which channels there are may change after that."""
        if self.publishing is not None:
            self.publishing.settle_run()
            self.publishing = None

    def run(self, events: list[Any], start: int) -> int:
        position = start
        end = len(events)
        while position < end:
            self.position = position
            event = events[position]
            position += 1
            if type(event) is Message:
                message = event
                channel = self.publishing
                if channel is None or channel.number != message.channel:
                    self.settle()
                    channel = self.publishing = self.channels.get(message.channel)
                if channel is None or channel.is_closing:
                    self.session.without_channel(channel)
                else:
                    channel.publish(message)
            elif type(event) is Ack:
                ack = event
                channel = self.channels.get(ack.channel)
                if channel is None or channel.is_closing:
                    self.session.without_channel(channel)
                else:
                    channel.ack(ack.delivery_tag, ack.multiple)
            else:
                self.settle()
                self.session.handle(event)
            if self.is_suspended or self.is_closed:
                break
        return position

    def failed(self, events: list[Any], error: AmqpError) -> int:
        """Answer the mistake in the event just tried; the next one is up."""
        event = events[self.position]
        if type(event) is Message:
            self.session.fail(event.channel, error, PUBLISH_IDS)
        elif type(event) is Ack:
            self.session.fail(event.channel, error, ACK_IDS)
        else:
            raise AssertionError("the session answers for control methods itself") from error
        return self.position + 1
