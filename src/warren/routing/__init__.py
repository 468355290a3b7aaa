"""Exchanges, bindings and the walk from an exchange to the queues that get a message."""
