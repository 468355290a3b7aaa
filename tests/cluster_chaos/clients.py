"""Clients that go on for as long as the run lasts, whatever happens to the node they talk to."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Final

from acceptance.raw_client import Frame
from cluster_chaos.expectations import Expectations
from cluster_chaos.talking import ChannelClosed, ConnectionClosed, Hangs, Talk, Trouble
from cluster_chaos.world import ChaosNode

RETRY_S: Final = 0.3
JOIN_S_MAX: Final = 90.0
INTERNAL_ERROR: Final = 541
HOME_DOWN: Final = "down or inaccessible"
# Errors that no fault explains: they are about what the client asked for.
OWN_FAULTS: Final = frozenset({402, 403, 405, 406, 502, 503, 504, 505, 530, 540, INTERNAL_ERROR})


class Gate:
    """Clients work while it is open; closing it waits until all of them rest."""

    def __init__(self) -> None:
        self._is_open = threading.Event()

    def open(self) -> None:
        self._is_open.set()

    def close(self) -> None:
        self._is_open.clear()

    @property
    def is_open(self) -> bool:
        return self._is_open.is_set()


class ChaosClient:
    """One thread; `step` is called again and again with a connection to the node in turn."""

    pause_s = 0.0

    def __init__(
        self, name: str, nodes: list[ChaosNode], expected: Expectations, chance: random.Random
    ) -> None:
        self.name = name
        self.chance = chance
        self.expected = expected
        self.nodes = nodes
        self.talk: Talk | None = None
        self.node = nodes[0]
        self.is_resting = threading.Event()
        self.gate = Gate()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._is_over = True
        self._thread.join(JOIN_S_MAX)
        if self._thread.is_alive():
            self.expected.complain(f"{self.name} does not come to an end")

    # What it is like.

    def prepare(self, talk: Talk) -> None:
        """The connection is new."""

    def step(self, talk: Talk) -> None:
        raise NotImplementedError

    def take(self, talk: Talk, frame: Frame) -> None:
        """What comes while it does nothing."""

    def settle(self, talk: Talk) -> None:
        """Before it rests: wait for answers that are due."""

    # How it goes on.

    def _run(self) -> None:
        try:
            while not self._is_over:
                self._work_or_rest()
        except Exception as failure:
            self.expected.complain(f"{self.name} failed itself: {failure!r}")
            raise
        finally:
            self.is_resting.set()
            self._hang_up()

    def _work_or_rest(self) -> None:
        if self.gate.is_open:
            self.is_resting.clear()
            self._guarded(self.step)
            if self.pause_s and self.talk is not None:
                self._guarded(lambda talk: self._idle(talk, self.chance.uniform(0, self.pause_s)))
            return
        if not self.is_resting.is_set():
            if self.talk is not None:
                self._guarded(self.settle)
            self.is_resting.set()
        if self.talk is not None:
            self._guarded(lambda talk: self._idle(talk, 0.05))
        else:
            time.sleep(0.05)

    def _idle(self, talk: Talk, seconds: float) -> None:
        frame = talk.receive(seconds)
        if frame is not None:
            self.take(talk, frame)

    def _guarded(self, work: Callable[[Talk], None]) -> None:
        try:
            if self.talk is None:
                self.node = self.chance.choice(self.nodes)
                talk = Talk(self.node.amqp)
                self.talk = talk
                self.prepare(talk)
            work(self.talk)
        except Hangs as error:
            self.expected.complain(f"{self.name} at {self.node.name} hangs: {error}")
            self._hang_up()
        except Trouble as error:
            self._troubled(error)
            self._hang_up()
            time.sleep(self.chance.uniform(0, RETRY_S))

    def _troubled(self, error: BaseException) -> None:
        self.expected.count(f"trouble: {type(error).__name__}")
        where = f"{self.name} at {self.node.name}"
        # A client that has no connection yet gives up after a few seconds, and tries again: on a
        # busy machine that says nothing. All other waits are bounded by `talking.ANSWER_S_MAX`.
        if self.expected.is_calm and not isinstance(error, TimeoutError):
            self.expected.complain(f"{where} had an error though nothing was done: {error!r}")
        if isinstance(error, ChannelClosed | ConnectionClosed) and error.code in OWN_FAULTS:
            self.expected.complain(f"{where} was refused for no good reason: {error}")

    def _hang_up(self) -> None:
        if self.talk is not None:
            self.talk.close()
            self.talk = None
