"""The store of large bodies: each is on disk once, however many queues have it."""
