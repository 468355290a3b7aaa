"""The history of totals: what all nodes of a cluster have done, as this node heard it at the time.

Every node tells the others each sample that it takes. At each sample of its own a node adds up what
it heard lately, and keeps the sum. So the past does not change when a node leaves or comes back: a
node that is down has no part in the sums of that time, and keeps its part in those before. Each sum
says of how many nodes it is.

Figures that grow (messages published, connections opened) are kept as growth: what each node
counted from one sample to the next is added to a total that never falls. A node that was not heard
in between adds nothing for that time, since nobody knows when it counted what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from warren.statistics.history import History

LENGTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")
# Figures of a machine, which are kept of each node and never added up.
OF_MACHINES: Final = ("mem_used", "disk_free")
NODES: Final = "nodes"
# A node that was not heard for two and a half samples is not there.
HEARD_MS_MAX: Final = 12_500
# Nodes whose machines are remembered, those that have left included.
MACHINES_MAX: Final = 64
_UNSUMMED: Final = frozenset((*LENGTHS, *OF_MACHINES))


class TotalSample(NamedTuple):
    timestamp_ms: int
    value: int
    nodes: int


class TotalHistory:
    """Samples of all nodes together, as node `name` knows them."""

    def __init__(self, name: str) -> None:
        self.machines: dict[str, History] = {}
        """By node, running or not: its memory and its disk."""
        self._name = name
        self._history = History()
        self._heard: dict[str, tuple[int, Mapping[str, int]]] = {}
        self._added: dict[str, Mapping[str, int]] = {}
        """By node: its figures in the last sum that it had a part in, if that was the last one."""
        self._grown: Counter[str] = Counter()

    def heard(self, node: str, now_ms: int, values: Mapping[str, int]) -> None:
        """Another node has told its sample; no values: it is down."""
        if values:
            self._heard[node] = (now_ms, values)
        else:
            self._heard.pop(node, None)

    def add(self, now_ms: int, own: Mapping[str, int]) -> None:
        """Take this node's own sample, and keep the sum of all."""
        self._heard[self._name] = (now_ms, own)
        self._heard = {
            node: heard for node, heard in self._heard.items() if now_ms - heard[0] <= HEARD_MS_MAX
        }
        present = {node: values for node, (_, values) in self._heard.items()}
        total: Counter[str] = Counter({NODES: len(present)})
        for node, values in present.items():
            total.update({name: values.get(name, 0) for name in LENGTHS})
            self._grow(node, values)
            self._keep_machine(node, now_ms, values)
        self._added = present
        self._history.add(now_ms, {**total, **self._grown})

    def _keep_machine(self, node: str, now_ms: int, values: Mapping[str, int]) -> None:
        if node not in self.machines:
            while len(self.machines) >= MACHINES_MAX:
                del self.machines[next(iter(self.machines))]
            self.machines[node] = History()
        kept = {name: values[name] for name in OF_MACHINES if name in values}
        self.machines[node].add(now_ms, kept)

    def _grow(self, node: str, values: Mapping[str, int]) -> None:
        # This node's own first sample begins at nothing: so do its counters.
        before = self._added.get(node, {} if node == self._name else values)
        for name, value in values.items():
            if name not in _UNSUMMED:
                former = before.get(name, 0)
                # Less than before: the node has started anew in between.
                self._grown[name] += value - former if value >= former else value

    def samples(self, name: str, now_ms: int, age_s: int, increment_s: int) -> list[TotalSample]:
        moments = self._history.moments(now_ms, age_s, increment_s)
        return [TotalSample(t, values.get(name, 0), values[NODES]) for t, values in moments]
