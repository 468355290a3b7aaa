"""What a message costs at low rates: reading what the kernel and strace have counted."""

from __future__ import annotations

import os
import threading

from bench.idle_cost import Usage, counted_calls, usage_of

SUMMARY = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.10    0.120000          12     10000           epoll_pwait
 30.00    0.060000          60      1000        12 fdatasync
  9.90    0.010000          10       500           fsync
------ ----------- ----------- --------- --------- ----------------
100.00    0.190000          16     11500        12 total
"""


def test_calls_are_summed_and_syncs_are_told_apart() -> None:
    assert counted_calls(SUMMARY) == (11_500, 1_500)
    assert counted_calls("") == (0, 0)


def test_what_a_process_reads_and_waits_for_is_counted() -> None:
    reading, writing = os.pipe()
    before = usage_of([os.getpid()])
    for _ in range(50):
        waiting = threading.Timer(0.001, os.write, (writing, b"x" * 1000))
        waiting.start()
        assert os.read(reading, 1000) == b"x" * 1000
        waiting.join()
    used = usage_of([os.getpid()]).since(before)
    os.close(reading)
    os.close(writing)
    assert used.calls >= 100
    assert used.octets >= 100_000
    assert used.wake_ups >= 1
    assert used.cpu_s > 0


def test_the_share_of_the_kernel_is_that_of_its_ticks() -> None:
    assert Usage(1.0, 30, 10, 0, 0, 0).kernel_share == 0.25
    assert Usage(0.0, 0, 0, 0, 0, 0).kernel_share == 0.0
