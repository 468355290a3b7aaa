"""The age of a queue's oldest message, after a clean stop and after SIGKILL."""

from __future__ import annotations

import time

from acceptance.actions import eventually
from acceptance.management_client import Api
from broker_process import Address, BrokerProcess
from durability.mail import declare_in, send
from durability.under_test import Restart, either_way
from warren.server.data_directory import HEADS_FILE

OLD_MS = 4_000


def age_ms(broker: BrokerProcess, queue: str) -> int:
    api = Api(Address("127.0.0.1", broker.http_port))
    return int(api.must(api.get("queues", "/", queue))["head_message_age_ms"] or 0)


@either_way
def test_the_age_of_the_head_goes_on_over_a_restart(
    mortal: BrokerProcess, restart: Restart
) -> None:
    declare_in(mortal, "ageing")
    send(mortal, [b"first", b"second"], "ageing")
    sent_at = time.monotonic()
    eventually(lambda: age_ms(mortal, "ageing") >= OLD_MS)
    eventually((mortal.data_dir / HEADS_FILE).exists)
    before_ms, asked_at = age_ms(mortal, "ageing"), time.monotonic()
    restart(mortal)
    after_ms, passed_ms = age_ms(mortal, "ageing"), 1000 * (time.monotonic() - asked_at)
    assert after_ms >= before_ms
    # Not more than it can be, but for what a clock is read late.
    assert after_ms <= 1000 * (time.monotonic() - sent_at) + 2_000
    assert after_ms >= before_ms + passed_ms - 2_000
