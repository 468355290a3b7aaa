"""The loads both brokers are put under, in the options mqload and `warren perf` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DECLARE: Final = "--declare --delete-after"
ACKS: Final = "--prefetch 200 --ack-every 50"
DURABLE: Final = "--durable --persistent --confirm 500"
WINDOW_1: Final = "--durable --persistent --confirm 1 --prefetch 200 --ack-every 1"
PACED: Final = "--prefetch 200 --ack-every 1 --rate 1000"
TOPIC: Final = "--exchange tx --exchange-type topic --bind-key k.%d.*.# --routing-key k.%d.a.b"


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    load: str
    paced: bool = False
    """The rate is given, so latency is what is compared."""

    def options(self, seconds: float) -> list[str]:
        return [*DECLARE.split(), *self.load.split(), "--time", str(seconds)]


def topic(bindings: int) -> str:
    return f"--queue qg {TOPIC} --binds {bindings} --rk-range {bindings} --size 100 --autoack"


SCENARIOS: Final = {
    scenario.name: scenario
    for scenario in (
        Scenario("a", "100 B transient, auto-ack", "--queue qa --size 100 --autoack"),
        Scenario("b", "1 KB transient, acks", f"--queue qb --size 1024 {ACKS}"),
        Scenario("t100k", "100 KB transient, acks", f"--queue qt --size 102400 {ACKS}"),
        Scenario("c", "1 KB persistent, confirms", f"--queue qc --size 1024 {DURABLE} {ACKS}"),
        Scenario("d10k", "10 KB persistent", f"--queue qd --size 10240 {DURABLE} {ACKS}"),
        Scenario("d100k", "100 KB persistent", f"--queue qd --size 102400 {DURABLE} {ACKS}"),
        Scenario(
            "f",
            "fan-out to 10 queues (deliveries)",
            "--queue qf --queues 10 --consumers 10 --exchange fx --exchange-type fanout"
            " --size 100 --autoack",
        ),
        Scenario("g", "topic, 1000 bindings", topic(1000)),
        Scenario("i0", "transient, 1000 msg/s", f"--queue qi --size 1024 {PACED}", paced=True),
        Scenario(
            "i1",
            "persistent, confirms, 1000 msg/s",
            f"--queue qi --size 1024 {DURABLE} {PACED}",
            paced=True,
        ),
        Scenario("w1", "persistent, each confirm awaited", f"--queue qw --size 1024 {WINDOW_1}"),
    )
}
