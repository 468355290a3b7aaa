"""Mirrored queues: guaranteed multicast between the replicas of a queue, and what stands on it."""
