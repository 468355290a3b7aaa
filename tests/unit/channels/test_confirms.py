"""Coalesced confirms against a client that counts: each publish is answered once, and truly."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from warren.channels.confirms import Confirms
from warren.model.counters import MessageCounters
from warren.wire.codec import FrameReader, MethodFrame, OutputBuffer

ACK, NACK = 80, 120
STEPS = ["taken", "wait", "refused", "alone", "settle", "flush"]


class Client:
    """Believes what basic.ack and basic.nack say, as the protocol means them."""

    def __init__(self) -> None:
        self.output = OutputBuffer(4096, 1 << 20, lambda: None)
        self.reader = FrameReader(4096, 1 << 20)
        self.confirms = Confirms(1, self.output, lambda due: None, MessageCounters())
        self.open: set[int] = set()
        self.acked: set[int] = set()
        self.nacked: set[int] = set()

    def read(self) -> None:
        self.confirms.flush()
        for event in self.reader.feed(b"".join(self.output.take())):
            if isinstance(event, MethodFrame):  # a nack: acks have a class of their own
                assert event.payload[3] == NACK
                tag = int.from_bytes(event.payload[4:12], "big")
                self._settle(tag, bool(event.payload[12]), self.nacked)
            else:
                self._settle(event.delivery_tag, event.multiple, self.acked)

    def _settle(self, tag: int, multiple: bool, into: set[int]) -> None:
        meant = {t for t in self.open if t == tag or (multiple and t < tag)}
        assert tag in self.open, f"{tag} was answered before, or never published"
        self.open -= meant
        into |= meant


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_every_publish_is_answered_once_whatever_the_order(data: st.DataObject) -> None:
    client = Client()
    confirms = client.confirms
    waiting: list[int] = []
    safe: set[int] = set()
    refused: set[int] = set()
    for _ in range(data.draw(st.integers(1, 40))):
        step = data.draw(st.sampled_from(STEPS))
        if step in ("taken", "wait", "refused"):
            sequence = confirms.begin()
            client.open.add(sequence)
            if step == "taken":
                confirms.taken(sequence)
                safe.add(sequence)
            elif step == "wait":
                confirms.wait_for(sequence, 1)
                waiting.append(sequence)
            else:
                confirms.rejected(sequence)
                refused.add(sequence)
        elif step == "alone":
            client.open.add(confirms.last_sequence + 1)
            confirms.acknowledge_alone()
            safe.add(confirms.last_sequence)
        elif step == "settle" and waiting:
            sequence = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
            confirms.confirmed(sequence)
            safe.add(sequence)
        elif step == "flush":
            client.read()
            assert client.acked == safe
            assert client.nacked == refused
    for sequence in waiting:
        confirms.confirmed(sequence)
        safe.add(sequence)
    client.read()
    assert client.open == set()
    assert (client.acked, client.nacked) == (safe, refused)


def test_an_unroutable_publish_is_told_at_once_and_by_itself() -> None:
    client = Client()
    confirms = client.confirms
    for _ in range(2):
        confirms.taken(confirms.begin())
    confirms.acknowledge_alone()
    acks = client.reader.feed(b"".join(client.output.take()))
    assert [(ack.delivery_tag, ack.multiple) for ack in acks] == [(2, True), (3, False)]
