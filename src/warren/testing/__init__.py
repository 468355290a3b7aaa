"""For tests: the real broker inside the process of a test, and a world that one seed decides about.

`running_broker` and the fixtures of `pytest_plugin` are for everybody's tests (docs/TESTING.md);
the rest is for our own: time, links and a metadata store to try machines in.
"""

from warren.testing.in_process import InProcessBroker, running_broker

__all__ = ["InProcessBroker", "running_broker"]
