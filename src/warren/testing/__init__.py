"""Testing with the real broker inside the process of a test (docs/TESTING.md)."""

from warren.testing.in_process import InProcessBroker, running_broker

__all__ = ["InProcessBroker", "running_broker"]
