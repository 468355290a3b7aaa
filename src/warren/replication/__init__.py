"""Replication of queues: groups of copies, their multicast, and what masters and mirrors do."""
